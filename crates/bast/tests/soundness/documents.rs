//! The documents at the root of the repository: their code is tested code, their links lead somewhere,
//! and the contracts that the source cites are written down.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn text(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

const DOCUMENTS: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "SOUNDNESS.md",
    "CHANGELOG.md",
    "crates/bast/README.md",
    "crates/bast-coro/README.md",
    "crates/bast-io/README.md",
    "crates/bast-rt/README.md",
    "crates/bast-sync/README.md",
];

/// The blocks of a document that begin with the given fence.
fn blocks<'a>(text: &'a str, fence: &str) -> Vec<&'a str> {
    let parts = text.split(fence).skip(1);
    parts.map(|part| part.split("\n```").next().unwrap_or_default()).collect()
}

/// `crates/bast/README.md` is the crate's documentation, and so its code is run by `cargo test`.
#[test]
fn the_code_of_the_readme_is_run() {
    let (readme, tested) = (text("README.md"), text("crates/bast/README.md"));
    let code = blocks(&readme, "```rust\n");
    assert!(!code.is_empty());
    for block in code {
        assert!(tested.contains(block), "not in crates/bast/README.md:\n{block}");
    }
}

#[test]
fn links_to_files_lead_to_files() {
    let mut links = 0;
    for document in DOCUMENTS {
        let folder = root().join(document).parent().expect("a folder").to_path_buf();
        let text = text(document);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            let is_file = path.contains('/') || path.ends_with(".md");
            if !is_file || path.contains("://") {
                continue;
            }
            links += 1;
            assert!(folder.join(path).exists(), "{document}: {link}");
        }
    }
    assert!(links > 10, "only {links} links were found");
}

/// Every `coro 1`, `io 3`, `rt 5` in the source is a contract of ARCHITECTURE.md.
#[test]
fn every_contract_that_is_cited_is_there() {
    let contracts = text("ARCHITECTURE.md");
    let mut cited = 0;
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                for contract in citations(&text(&path)) {
                    cited += 1;
                    let head = format!("**{contract}.**");
                    assert!(contracts.contains(&head), "{}: {contract}", path.display());
                }
            }
        }
    }
    assert!(cited > 50, "only {cited} citations were found");
}

/// `coro 1` and the like, where they stand as words of their own.
fn citations(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.windows(2).filter_map(|pair| {
        let layer = pair[0].trim_matches(|c: char| !c.is_alphanumeric());
        let number: String = pair[1].chars().take_while(char::is_ascii_digit).collect();
        let ends = pair[1][number.len()..].chars().all(|c| !c.is_alphanumeric());
        let cites = matches!(layer, "coro" | "io" | "rt" | "sync") && !number.is_empty() && ends;
        cites.then(|| format!("{layer} {number}"))
    });
    pairs.collect()
}

#[test]
fn citations_are_found() {
    let text = "(coro 1, io 2) as rt 3: but bio 1, io one, io 2x";
    assert_eq!(citations(text), ["coro 1", "io 2", "rt 3"]);
}
