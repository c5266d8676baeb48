//! The files themselves: which must exist, how they begin, how long they may be.

use super::{Check, Finding};

/// The most lines of a source file.
const LIMIT: usize = 600;

/// Files that may be longer. Each is a debt; the list is best empty.
const LONGER: &[&str] = &[];

pub(super) const CHECKS: &[Check] = &[
    Check {
        rule: "every source file says at its head what it is for",
        run: |tree| {
            let headless = |(_, text): &(&str, &str)| {
                !text.starts_with("//!") && !text.starts_with("#![doc = include_str!")
            };
            let what = "does not begin with `//!`";
            tree.sources("").filter(headless).map(|(path, _)| Finding::new(path, 1, what)).collect()
        },
        canaries: &[|tree| tree.append("crates/bast/src/new.rs", "// What?\nfn f() {}\n")],
    },
    Check {
        rule: "no source file is longer than 600 lines",
        run: |tree| {
            let too_long = tree.sources("").filter_map(|(path, text)| {
                let lines = text.lines().count();
                let fault = lines > LIMIT && !LONGER.contains(&path);
                fault.then(|| Finding::new(path, LIMIT + 1, format!("{lines} lines")))
            });
            too_long.collect()
        },
        canaries: &[|tree| tree.append("crates/bast/src/plain.rs", &"// line\n".repeat(LIMIT))],
    },
    Check {
        rule: "the licences and a changelog with an Unreleased section are there",
        run: |tree| {
            let mut findings = Vec::new();
            for path in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md", "README.md"] {
                if tree.files.get(path).is_none_or(|text| text.trim().is_empty()) {
                    findings.push(Finding::new(path, 1, "is missing or empty"));
                }
            }
            let changes = tree.files.get("CHANGELOG.md").map(String::as_str).unwrap_or_default();
            let unreleased =
                |line: &str| line.starts_with("## ") && line.to_lowercase().contains("unreleased");
            if !changes.lines().any(unreleased) {
                findings.push(Finding::new("CHANGELOG.md", 1, "has no section `## Unreleased`"));
            }
            findings
        },
        canaries: &[
            |tree| drop(tree.files.remove("LICENSE-MIT")),
            |tree| drop(tree.files.remove("LICENSE-APACHE")),
            |tree| drop(tree.files.insert("CHANGELOG.md".into(), "# Changelog\n".into())),
        ],
    },
];
