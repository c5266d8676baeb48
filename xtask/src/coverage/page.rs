//! Reading rustdoc's pages: what a module has, and what a type has.
//!
//! The pages of std and of bast are made by the same rustdoc, of the pinned toolchain, so one reader does for
//! both. Pages instead of rustdoc's JSON, as that needs nightly and is not there for std. A new rustdoc that
//! writes other pages makes every item of bast disappear: a loud failure, not a silent one.

/// One entry of a module's page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: String,
    pub(super) name: String,
    /// From where, if the module's page only says so and there is no page of its own.
    pub(super) reexported: Option<String>,
}

/// Traits that bast has for everything that has a descriptor, and std for some types.
const BLANKET: [&str; 1] = ["IsTerminal"];

/// What a module's page lists, without what is unstable or not for this kind of system.
pub(super) fn entries(page: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for cell in pieces(page, "<dt", "</dt>") {
        if is_elsewhere(cell) {
            continue;
        }
        let entry = if let Some(name) = between(cell, " id=\"reexport.", "\"") {
            let from = text(cell.split_once('>').map_or("", |(_, rest)| rest));
            let from = from.trim_start_matches("pub use ").trim_end_matches(';').to_owned();
            Entry { kind: "re-export".into(), name: name.into(), reexported: Some(from) }
        } else if let (Some(kind), Some(title)) =
            (between(cell, "<a class=\"", "\""), between(cell, " title=\"", "\""))
        {
            let name = title.rsplit([' ', ':']).next().unwrap_or(title);
            Entry { kind: kind.into(), name: name.into(), reexported: None }
        } else {
            continue;
        };
        entries.push(entry);
    }
    entries
}

/// The methods, fields, variants and trait implementations that a type's or trait's page shows. `is_unstable`
/// is asked with the link to a trait. Blanket implementations are not listed, but for those of [`BLANKET`]: `impl
/// IsTerminal for T`.
pub(super) fn members(page: &str, is_unstable: impl Fn(&str) -> bool) -> Vec<String> {
    let (own, others) = ["blanket-implementations", "implementors", "foreign-impls"]
        .iter()
        .filter_map(|id| page.find(&format!("<h2 id=\"{id}\"")))
        .min()
        .map_or((page, ""), |end| page.split_at(end));
    let blanket = others.split("<section id=\"").skip(1).filter_map(header).map(implemented);
    let blanket = blanket.filter(|of| BLANKET.iter().any(|name| *of == format!("{name} for T")));
    let mut members: Vec<String> = blanket.map(|of| format!("impl {of}")).collect();
    for field in pieces(own, "<span id=\"structfield.", ">") {
        members.extend(between(field, "structfield.", "\"").map(|name| format!("field {name}")));
    }
    for part in own.split("<h2 id=\"").filter(|part| !part.starts_with("deref-methods")) {
        for section in part.split("<section id=\"").skip(1) {
            // What is said of it stands between it and its own description.
            let said = section.split("<div class=\"docblock\"").next().unwrap_or(section);
            let (Some(class), Some(header)) = (between(section, "class=\"", "\""), header(section))
            else {
                continue;
            };
            if is_elsewhere(said) {
                continue;
            }
            match class {
                "impl" => {
                    let link = between(header, "<a class=\"trait\" href=\"", "\"");
                    let of = implemented(header);
                    if of.contains(" for ")
                        && !of.starts_with('!')
                        && !link.is_some_and(&is_unstable)
                    {
                        members.push(format!("impl {of}"));
                    }
                }
                "method" | "variant" | "associatedconstant" | "associatedtype" => {
                    let id = section.split('"').next().unwrap_or_default();
                    let name = id.split('.').nth(1).unwrap_or(id);
                    let name = name.split('-').next().unwrap_or(name);
                    members.push(name.into());
                }
                _ => {}
            }
        }
    }
    members.sort();
    members.dedup();
    members
}

/// Whether a page of an item of its own says that the item is unstable.
pub(super) fn is_unstable(page: &str) -> bool {
    let declared = page.split("item-decl").nth(1).unwrap_or_default();
    let said = declared.split("<details").next().unwrap_or_default();
    said.contains("class=\"stab unstable\"")
}

/// Whether it is for nightly, or for systems that are neither Linux nor any Unix.
fn is_elsewhere(html: &str) -> bool {
    let systems = html.split_once("class=\"stab portability\"").map(|(_, rest)| {
        let ends = [rest.find("</div>"), rest.find("</span>")];
        &rest[..ends.into_iter().flatten().min().unwrap_or(rest.len())]
    });
    html.contains("class=\"stab unstable\"")
        || systems
            .is_some_and(|said| !["Unix", "Linux", "non-"].iter().any(|ours| said.contains(ours)))
}

/// The line of code at the head of a section.
fn header(section: &str) -> Option<&str> {
    let section = section.split("</section>").next()?;
    let header = section.split_once("class=\"code-header\">").map_or("", |(_, rest)| rest);
    let header = header.split("</h").next().unwrap_or(header);
    Some(header.split("<div class=\"where\">").next().unwrap_or(header))
}

/// `Read for &File` of `impl<'a> Read for &'a File`.
fn implemented(header: &str) -> String {
    let header = text(header);
    let mut rest = header.trim_start_matches("unsafe ").trim_start_matches("impl");
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.char_indices().find(|(at, c)| {
            match c {
                '<' => depth += 1,
                '>' if !rest[..*at].ends_with('-') => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        rest = end.map_or("", |(at, _)| &rest[at + 1..]);
    }
    let rest = rest.trim_start().trim_start_matches("const ");
    let rest = rest.split(" where").next().unwrap_or(rest).trim();
    without_lifetimes(rest)
}

/// Which names lifetimes have does not matter.
fn without_lifetimes(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\'') {
        out.push_str(before);
        let name = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
        rest = after[name..].trim_start_matches(", ").trim_start();
    }
    out.push_str(rest);
    out.replace("<>", "")
}

/// HTML without its tags.
fn text(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        rest = after.split_once('>').map_or("", |(_, rest)| rest);
    }
    out.push_str(rest);
    for (entity, plain) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ] {
        out = out.replace(entity, plain);
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

/// Every piece of a text from `start` to `end`.
fn pieces<'a>(text: &'a str, start: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(start).filter_map(move |(at, _)| {
        let rest = &text[at..];
        Some(&rest[..rest.find(end)?])
    })
}

#[cfg(test)]
mod tests {
    use super::{Entry, entries, implemented, members};

    #[test]
    fn a_module_lists_what_is_stable_and_ours() {
        let page = r#"<dt id="reexport.Duration"><code>pub use std::time::<a class="struct" href="x">Duration</a>;</code></dt>
            <dt><a class="struct" href="struct.OpenOptions.html" title="struct std::fs::OpenOptions">Open<wbr>Options</a></dt>
            <dt><a class="struct" href="struct.Dir.html" title="struct std::fs::Dir">Dir</a><wbr><span class="stab unstable" title="">Experimental</span></dt>
            <dt><a class="fn" href="f" title="fn std::os::f">f</a><span class="stab portability" title="Available on Windows only">W</span></dt>
            <dt><a class="fn" href="g" title="fn std::os::g">g</a><span class="stab portability" title="Available on non-Fuchsia only">W</span></dt>"#;
        let entry = |kind: &str, name: &str, from: Option<&str>| Entry {
            kind: kind.into(),
            name: name.into(),
            reexported: from.map(Into::into),
        };
        let expected = [
            entry("re-export", "Duration", Some("std::time::Duration")),
            entry("struct", "OpenOptions", None),
            entry("fn", "g", None),
        ];
        assert_eq!(entries(page), expected);
    }

    #[test]
    fn a_type_has_members_of_its_own_and_traits() {
        let page = r#"<span id="structfield.stdin" class="structfield">x</span>
            <h2 id="implementations"></h2>
            <section id="method.open-1" class="method"><h4 class="code-header">pub fn open()</h4></section><div class="docblock">
            <section id="method.new" class="method"><h4 class="code-header">fn</h4></section><span class="item-info"><div class="stab unstable">
            <h2 id="deref-methods-str"></h2><section id="method.len" class="method"><h4 class="code-header">fn</h4></section>
            <h2 id="trait-implementations"></h2>
            <section id="impl-Read" class="impl"><h3 class="code-header">impl <a class="trait" href="r">Read</a> for &amp;<a>File</a></h3></section>
            <section id="method.read" class="method trait-impl"><h4 class="code-header">fn</h4></section>
            <section id="impl-F" class="impl"><h3 class="code-header">impl <a class="trait" href="freeze">Freeze</a> for File</h3></section>
            <h2 id="blanket-implementations"></h2>
            <section id="impl-Any" class="impl"><h3 class="code-header">impl&lt;T&gt; Any for T</h3></section>
            <section id="impl-I" class="impl"><h3 class="code-header">impl&lt;T&gt; IsTerminal for T<div class="where">where T: AsFd</div></h3></section>"#;
        let found = members(page, |link| link == "freeze");
        assert_eq!(found, ["field stdin", "impl IsTerminal for T", "impl Read for &File", "open"]);
    }

    #[test]
    fn names_of_generics_do_not_matter() {
        let of = |header: &str| implemented(header);
        assert_eq!(of("impl&lt;T: Fn() -&gt; u8&gt; Send for Mutex&lt;T&gt;"), "Send for Mutex<T>");
        assert_eq!(
            of("impl&lt;'a, T&gt; Debug for Guard&lt;'a, T&gt; where T: Debug"),
            "Debug for Guard<T>"
        );
        assert_eq!(
            of("impl IntoIterator for &amp;'a Incoming&lt;'_&gt;"),
            "IntoIterator for &Incoming"
        );
    }
}
