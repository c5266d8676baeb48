//! What no text of the project may contain, comments and documents included.

use super::tree::Tree;
use super::{Check, Finding};

// Put together here, so that this file does not contain what it looks for.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
const MACHINE_PATHS: [&str; 3] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

pub(super) const CHECKS: &[Check] = &[
    Check {
        rule: "no line ends in white space, and every file ends with a line's end",
        run: |tree| {
            let mut findings = Vec::new();
            for (path, text) in &tree.files {
                for (number, line) in text.split('\n').enumerate() {
                    if line.ends_with([' ', '\t', '\r']) {
                        findings.push(Finding::new(path, number + 1, "white space at the end"));
                    }
                }
                if !text.is_empty() && !text.ends_with('\n') {
                    let last = text.lines().count();
                    findings.push(Finding::new(path, last, "the last line has no end"));
                }
            }
            findings
        },
        canaries: &[
            |tree| tree.append("README.md", "text \n"),
            |tree| tree.append("crates/bast/src/plain.rs", "\t\n"),
            |tree| tree.append("README.md", "text\r\n"),
            |tree| tree.append("README.md", "text"),
        ],
    },
    Check {
        rule: "notes to oneself are issues, not comments",
        run: |tree| find(tree, &NOTES, |before, after| !is_word(before) && !is_word(after)),
        canaries: &[
            |tree| tree.append("crates/bast/src/plain.rs", concat!("// TO", "DO: more\n")),
            |tree| tree.append("README.md", concat!("(FIX", "ME)\n")),
            |tree| tree.append("Cargo.toml", concat!("description = \"X", "XX\"\n")),
        ],
    },
    Check {
        rule: "no path of somebody's machine",
        run: |tree| find(tree, &MACHINE_PATHS, |before, _| !is_word(before) && before != Some('.')),
        canaries: &[
            |tree| tree.append("README.md", concat!("see /wo", "rk/main\n")),
            |tree| tree.append("crates/bast/src/plain.rs", concat!("// \"/ro", "ot/x\"\n")),
        ],
    },
];

fn is_word(character: Option<char>) -> bool {
    character.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// Finds the needles, where what stands before and after them agrees.
fn find(
    tree: &Tree,
    needles: &[&str],
    agrees: impl Fn(Option<char>, Option<char>) -> bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.files {
        for (number, line) in text.lines().enumerate() {
            for needle in needles {
                for (at, _) in line.match_indices(needle) {
                    let before = line[..at].chars().next_back();
                    let after = line[at + needle.len()..].chars().next();
                    if agrees(before, after) {
                        findings.push(Finding::new(path, number + 1, *needle));
                    }
                }
            }
        }
    }
    findings
}
