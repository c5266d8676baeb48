//! The links of a page.

use std::collections::BTreeSet;

use html5gum::{DefaultEmitter, Token, Tokenizer};
use url::Url;

/// Bytes of the longest address. Browsers know longer ones; who has such links means harm, or has a bug.
const MAX_ADDRESS: usize = 4096;

/// The address that `text` is on a page at `base`, if it is one.
pub fn address(base: &Url, text: &str) -> Option<Url> {
    let url = base.join(text.trim()).ok()?;
    (url.as_str().len() <= MAX_ADDRESS).then(|| bare(&url))
}

/// The address of a page, without the place in it.
pub fn bare(url: &Url) -> Url {
    let mut url = url.clone();
    url.set_fragment(None);
    url
}

/// What the page at `page` leads to: addresses of pages, pictures, scripts and styles, without the place
/// in them; and what should be an address and is none. Links that are no matter of HTTP are left out.
pub fn links(html: &[u8], page: &Url) -> (BTreeSet<Url>, BTreeSet<String>) {
    let mut base = page.clone();
    let (mut links, mut garbled) = (BTreeSet::new(), BTreeSet::new());
    // What looks like a tag inside a script is none.
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        let Token::StartTag(tag) = token else { continue };
        let name = match &tag.name[..] {
            b"a" | b"area" | b"link" | b"base" => &b"href"[..],
            b"img" | b"script" | b"iframe" | b"source" | b"video" | b"audio" => b"src",
            _ => continue,
        };
        let Some(value) = tag.attributes.get(name) else { continue };
        let text = String::from_utf8_lossy(value);
        match address(&base, &text) {
            Some(url) if &tag.name[..] == b"base" => base = url,
            Some(url) if matches!(url.scheme(), "http" | "https") => {
                links.insert(url);
            }
            Some(_) => {}
            None => {
                garbled.insert(text.into_owned());
            }
        }
    }
    (links, garbled)
}

#[cfg(test)]
mod tests {
    use super::links;

    fn base() -> url::Url {
        "http://a.example/dir/page".parse().unwrap()
    }

    #[test]
    fn links_of_all_kinds_are_found() {
        let html = br#"<!doctype html><link rel=stylesheet href=/style.css>
            <a href="b?x=1&amp;y=2#part">b</a> <a href='b?x=1&y=2'>again</a> <a name=none>no link</a>
            <a href="mailto:a@b.c">no page</a> <a href="javascript:alert(1)">nor this</a>
            <script>if (1 < 2) "<a href=/in-a-script>"</script> <!-- <a href=/in-a-comment> -->
            <IMG SRC="//other.example/p.png"> <a href="http://[bad">garbled</a> <a href="">itself</a>"#;
        let (found, garbled) = links(html, &base());
        let found: Vec<&str> = found.iter().map(url::Url::as_str).collect();
        assert_eq!(
            found,
            [
                "http://a.example/dir/b?x=1&y=2",
                "http://a.example/dir/page",
                "http://a.example/style.css",
                "http://other.example/p.png",
            ]
        );
        assert!(garbled.iter().eq(["http://[bad"]), "{garbled:?}");
    }

    #[test]
    fn a_base_is_heeded_and_noise_does_no_harm() {
        let html = b"<base href='/elsewhere/'><a href=x>x</a> <a href='\xff'>y</a> <a href=cut";
        let (found, garbled) = links(html, &base());
        let found: Vec<&str> = found.iter().map(url::Url::as_str).collect();
        let (x, y) = ("http://a.example/elsewhere/x", "http://a.example/elsewhere/%EF%BF%BD");
        assert_eq!(found, [y, x]);
        assert!(garbled.is_empty());
        let long = format!("<a href=/{}>", "x".repeat(5000));
        assert_eq!(links(long.as_bytes(), &base()).1.len(), 1);
    }
}
