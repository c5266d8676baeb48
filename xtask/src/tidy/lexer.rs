//! Splits Rust source into names and signs, without comments and literals, so that a rule about
//! names does not stumble over prose. It needs to know only where those begin and end.

/// A name, or one sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// All tokens, comments and literals left out.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => find(bytes, at, b'\n'),
            b'/' if bytes[at..].starts_with(b"/*") => block_comment(bytes, at),
            b'"' => string(bytes, at + 1),
            b'\'' => quote(bytes, at),
            b if b.is_ascii_alphabetic() || b == b'_' || b >= 0x80 => {
                let end = name(bytes, at);
                match literal_after_prefix(bytes, at, end) {
                    Some(end) => end,
                    None => {
                        tokens.push(Token { text: &source[at..end], line });
                        end
                    }
                }
            }
            b if b.is_ascii_digit() => name(bytes, at),
            b if b.is_ascii_whitespace() => at + 1,
            _ => {
                tokens.push(Token { text: &source[at..=at], line });
                at + 1
            }
        };
        line += bytes[at..end].iter().filter(|&&b| b == b'\n').count();
        at = end;
    }
    tokens
}

fn find(bytes: &[u8], from: usize, sign: u8) -> usize {
    bytes[from..].iter().position(|&b| b == sign).map_or(bytes.len(), |n| from + n)
}

fn name(bytes: &[u8], from: usize) -> usize {
    let inside = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80;
    bytes[from..].iter().position(|b| !inside(b)).map_or(bytes.len(), |n| from + n)
}

fn block_comment(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if bytes[at..].starts_with(b"*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The end of a string whose opening quote lies just before `at`.
fn string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// A character, or a lifetime (of which only the quote is skipped).
fn quote(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'\\') {
        return (find(bytes, (at + 3).min(bytes.len()), b'\'') + 1).min(bytes.len());
    }
    // A character may take up to four bytes; a lifetime's quote is not closed.
    let close = (at + 2..=at + 5).find(|&n| bytes.get(n) == Some(&b'\''));
    match close {
        Some(n) if n == at + 2 || bytes[at + 1] >= 0x80 => n + 1,
        _ => at + 1,
    }
}

/// The end of a literal that began with a prefix (`b"`, `r#"`, `br"`, `c"`, `b'`), if it is one.
fn literal_after_prefix(bytes: &[u8], from: usize, end: usize) -> Option<usize> {
    let prefix = &bytes[from..end];
    let raw = matches!(prefix, b"r" | b"br" | b"cr");
    match bytes.get(end) {
        Some(b'"') if !raw && matches!(prefix, b"b" | b"c") => Some(string(bytes, end + 1)),
        Some(b'\'') if prefix == b"b" => Some(quote(bytes, end)),
        Some(b'"' | b'#') if raw => {
            let hashes = bytes[end..].iter().take_while(|&&b| b == b'#').count();
            if bytes.get(end + hashes) != Some(&b'"') {
                return None; // r#name
            }
            let mut at = end + hashes + 1;
            loop {
                at = find(bytes, at, b'"') + 1;
                if at > bytes.len() {
                    return Some(bytes.len());
                }
                if bytes[at..].iter().take_while(|&&b| b == b'#').count() >= hashes {
                    return Some(at + hashes);
                }
            }
        }
        _ => None,
    }
}

/// The tokens without the items under `#[cfg(test)]` or `#[test]`: tests may do what the code must
/// not.
pub(crate) fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is(tokens, at, "#") && is(tokens, at + 1, "[") {
            let end = balanced(tokens, at + 1);
            if is_for_tests(&tokens[at..end]) {
                at = item(tokens, end);
                continue;
            }
        }
        kept.push(tokens[at]);
        at += 1;
    }
    kept
}

fn is(tokens: &[Token<'_>], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.text == text)
}

/// `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, ...))]`; what holds for tests alone.
fn is_for_tests(attribute: &[Token<'_>]) -> bool {
    let has = |text| attribute.iter().any(|token| token.text == text);
    let first = attribute.get(2).map(|token| token.text);
    first == Some("test") || (first == Some("cfg") && has("test") && !has("not") && !has("any"))
}

/// The end of the bracket that opens at `at`.
fn balanced(tokens: &[Token<'_>], mut at: usize) -> usize {
    let mut depth = 0;
    while at < tokens.len() {
        match tokens[at].text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

/// The end of the item that begins at `at`: its `;`, or its body in braces.
fn item(tokens: &[Token<'_>], mut at: usize) -> usize {
    while at < tokens.len() {
        match tokens[at].text {
            ";" => return at + 1,
            "{" => {
                let end = balanced(tokens, at);
                return if is(tokens, end, ";") { end + 1 } else { end }; // use a::{b};
            }
            "(" | "[" => at = balanced(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// The names used out of `std` and `core` (`task` in `std::task::Waker` and in `use std::{task}`).
pub(crate) fn std_modules<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let root = is(tokens, at, "std") || is(tokens, at, "core");
        if !root || !is(tokens, at + 1, ":") || !is(tokens, at + 2, ":") {
            continue;
        }
        if !is(tokens, at + 3, "{") {
            found.extend(tokens.get(at + 3));
            continue;
        }
        let end = balanced(tokens, at + 3);
        let mut inner = at + 4;
        while inner + 1 < end {
            found.push(tokens[inner]);
            while inner + 1 < end && tokens[inner].text != "," {
                inner = if is(tokens, inner, "{") { balanced(tokens, inner) } else { inner + 1 };
            }
            inner += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{std_modules, tokens, without_tests};

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        assert_eq!(texts("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(texts(r#"a "b \" c" d"#), ["a", "d"]);
        assert_eq!(
            texts("a r#\"b \" c\"# d br\"e\" c\"f\" b\"g\" b'h' r#i"),
            ["a", "d", "r", "#", "i"]
        );
        assert_eq!(texts("'x' '\\'' '\\u{41}' '\u{e9}' 'a, '"), ["'", "a", ",", "'"][1..3]);
        assert_eq!(texts("&'a str 1_000u32 0x1f"), ["&", "a", "str"]);
    }

    #[test]
    fn lines_are_counted() {
        let lines: Vec<usize> = tokens("a\n\"b\nc\"\nd /*\n*/ e").iter().map(|t| t.line).collect();
        assert_eq!(lines, [1, 4, 5]);
    }

    #[test]
    fn tests_are_left_out() {
        let source = "a #[cfg(test)] mod t { x } b #[cfg(all(test, unix))] use c::{d}; \
            #[cfg(not(test))] e #[test] #[ignore] fn f(x: [u8; 3]) { y } g #[allow(h)] mod i;";
        let kept: Vec<&str> = without_tests(&tokens(source)).iter().map(|t| t.text).collect();
        let rest = "a b # [ cfg ( not ( test ) ) ] e g # [ allow ( h ) ] mod i ;";
        assert_eq!(kept.join(" "), rest);
    }

    #[test]
    fn modules_of_std_are_found() {
        let source =
            "use std::thread; core::task::Waker; use std::{io::{self, task}, thread, fmt};";
        let found = tokens(source);
        let found: Vec<&str> = std_modules(&found).iter().map(|t| t.text).collect();
        assert_eq!(found, ["thread", "task", "io", "thread", "fmt"]);
    }
}
