//! Why something of std is left out: a file of lines `what = why`, where `*` in `what` stands for anything.

use std::cell::Cell;

/// One line.
pub(super) struct Reason {
    what: String,
    pub(super) why: String,
    used: Cell<bool>,
}

pub(super) fn parse(text: &str) -> Result<Vec<Reason>, String> {
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(at, line)| {
            let (what, why) = line
                .split_once(" = ")
                .ok_or_else(|| format!("reasons.txt:{}: {line:?} is not `what = why`", at + 1))?;
            Ok(Reason { what: what.trim().into(), why: why.trim().into(), used: Cell::new(false) })
        })
        .collect()
}

/// The first reason that is given for this.
pub(super) fn find<'a>(reasons: &'a [Reason], what: &str) -> Option<&'a str> {
    let reason = reasons.iter().find(|reason| matches(&reason.what, what))?;
    reason.used.set(true);
    Some(&reason.why)
}

/// Those that were given for nothing.
pub(super) fn unused(reasons: &[Reason]) -> impl Iterator<Item = &str> {
    reasons.iter().filter(|reason| !reason.used.get()).map(|reason| &*reason.what)
}

fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    while let Some((piece, more)) = rest.split_once('*') {
        let Some(at) = text.find(piece) else { return false };
        (text, rest) = (&text[at + piece.len()..], more);
    }
    text.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::{find, matches, parse, unused};

    #[test]
    fn the_first_that_fits_is_given_and_the_others_are_noticed() {
        let reasons =
            parse("# why\nfs::soft_link = old\n*: impl *Terminal* = sealed\nx = y\n").unwrap();
        assert_eq!(find(&reasons, "fs::soft_link"), Some("old"));
        assert_eq!(find(&reasons, "fs::File: impl IsTerminal for File"), Some("sealed"));
        assert_eq!(find(&reasons, "fs::copy"), None);
        assert_eq!(unused(&reasons).collect::<Vec<_>>(), ["x"]);
        assert!(parse("no reason").is_err());
    }

    #[test]
    fn stars_stand_for_anything() {
        assert!(matches("a*c", "abc") && matches("a*", "a") && matches("*b*", "abc"));
        assert!(!matches("a*c", "ab") && !matches("ab", "abc"));
    }
}
