//! Names that must not occur in a crate (DESIGN, section 2), and where `unsafe` may stand
//! (section 5). Comments, texts and tests are free.

use super::lexer::{Token, std_modules, tokens, without_tests};
use super::tree::Tree;
use super::{Check, Finding};

pub(super) const CHECKS: &[Check] = &[
    Check {
        rule: "bast-io knows no fiber and no task",
        run: |tree| {
            in_code(tree, "crates/bast-io/src/", |tokens| {
                let fiber = |token: &&Token<'_>| token.text.to_ascii_lowercase().contains("fiber");
                let mut found: Vec<_> = tokens.iter().filter(fiber).copied().collect();
                found.extend(std_modules(tokens).iter().filter(|token| token.text == "task"));
                found
            })
        },
        canaries: &[
            |tree| tree.append("crates/bast-io/src/plain.rs", "fn wake(fiber: u8) {}\n"),
            |tree| tree.append("crates/bast-io/src/plain.rs", "struct FiberId;\n"),
            |tree| tree.append("crates/bast-io/src/plain.rs", "use std::{io, task::Waker};\n"),
            |tree| tree.append("crates/bast-io/src/plain.rs", "type W = core::task::Waker;\n"),
        ],
    },
    Check {
        rule: "bast-rt makes no system call and names no system",
        run: |tree| {
            in_code(tree, "crates/bast-rt/src/", |tokens| names(tokens, &["libc", "target_os"]))
        },
        canaries: &[
            |tree| tree.append("crates/bast-rt/src/plain.rs", "fn f() { libc::getpid(); }\n"),
            |tree| {
                let code = "#[cfg(target_os = \"linux\")]\nfn f() {}\n";
                tree.append("crates/bast-rt/src/plain.rs", code);
            },
        ],
    },
    Check {
        rule: "bast-coro knows no thread, but how one unwinds",
        run: |tree| in_code(tree, "crates/bast-coro/src/", thread_names),
        canaries: &[
            |tree| tree.append("crates/bast-coro/src/plain.rs", "fn f() { std::thread::park() }\n"),
            |tree| {
                let code = "use std::{io, thread};\nfn f() { thread::spawn(g); }\n";
                tree.append("crates/bast-coro/src/plain.rs", code);
            },
            |tree| {
                let code = "use std::thread::{self, Builder, Result};\n";
                tree.append("crates/bast-coro/src/plain.rs", code);
            },
            |tree| tree.append("crates/bast-coro/src/plain.rs", "use std::thread::*;\n"),
        ],
    },
    Check {
        rule: "thread-locals live in the tls.rs of bast-rt and bast-tokio alone",
        run: |tree| {
            let mut findings = in_code(tree, "crates/", |tokens| names(tokens, &["thread_local"]));
            let homes = ["crates/bast-rt/src/tls.rs", "crates/bast-tokio/src/tls.rs"];
            findings.retain(|finding| !homes.contains(&finding.path.as_str()));
            findings
        },
        canaries: &[
            |tree| tree.append("crates/bast/src/plain.rs", "thread_local! { static A: u8 = 1; }\n"),
            |tree| tree.append("crates/bast-rt/src/plain.rs", "std::thread_local! {}\n"),
        ],
    },
    Check {
        rule: "bast has no unsafe code outside os/",
        run: |tree| {
            let mut findings = in_code(tree, "crates/bast/src/", |t| names(t, &["unsafe"]));
            findings.retain(|finding| !finding.path.starts_with("crates/bast/src/os"));
            findings
        },
        canaries: &[|tree| {
            tree.append("crates/bast/src/plain.rs", "fn f() { unsafe { g() } }\n");
        }],
    },
    Check {
        rule: "unsafe code is let in by `#[allow(unsafe_code)] mod name;` in the crate's root",
        run: opt_ins,
        canaries: &[
            |tree| tree.append("crates/bast-rt/src/plain.rs", "#[allow(unsafe_code)]\nmod a;\n"),
            |tree| tree.append("crates/bast-rt/src/lib.rs", "#![allow(unsafe_code)]\n"),
            |tree| tree.append("crates/bast-io/src/lib.rs", "#[allow(unsafe_code)]\nfn f() {}\n"),
            |tree| tree.append("crates/bast-io/src/lib.rs", "#[expect(unsafe_code)]\nmod a {}\n"),
        ],
    },
    Check {
        rule: "nothing is left unfinished by macro",
        run: |tree| {
            let macros = ["todo", "unimplemented", "dbg"];
            let mut findings = Vec::new();
            for (path, text) in tree.sources("") {
                let all = tokens(text);
                for pair in all.windows(2) {
                    if pair[1].text == "!" && macros.contains(&pair[0].text) {
                        findings.push(Finding::new(
                            path,
                            pair[0].line,
                            format!("{}!", pair[0].text),
                        ));
                    }
                }
            }
            findings
        },
        canaries: &[
            |tree| tree.append("crates/bast/src/plain.rs", "fn f() { todo!() }\n"),
            |tree| tree.append("bench/src/main.rs", "fn f() { dbg!(1); }\n"),
            |tree| tree.append("crates/bast-io/tests/it/main.rs", "fn f() { unimplemented!() }\n"),
        ],
    },
];

/// Applies a search to the code of every source file below a folder, tests left out.
fn in_code(
    tree: &Tree,
    folder: &str,
    search: impl for<'a> Fn(&[Token<'a>]) -> Vec<Token<'a>>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.sources(folder).filter(|(path, _)| !is_test_file(path)) {
        for token in search(&without_tests(&tokens(text))) {
            let what = format!("`{}` must not be here", token.text);
            findings.push(Finding::new(path, token.line, what));
        }
    }
    findings
}

fn is_test_file(path: &str) -> bool {
    let folders = ["/tests/", "/benches/", "/examples/", "/fuzz/"];
    path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
        || folders.iter().any(|f| path.contains(f))
}

fn names<'a>(tokens: &[Token<'a>], forbidden: &[&str]) -> Vec<Token<'a>> {
    tokens.iter().filter(|token| forbidden.contains(&token.text)).copied().collect()
}

/// The names used out of `std::thread`, but the two that concern unwinding only.
fn thread_names<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let path = tokens[at..].iter().map(|token| token.text).take(3);
        if !path.eq(["thread", ":", ":"]) {
            continue;
        }
        let after = &tokens[(at + 3).min(tokens.len())..];
        let group = after.first().is_some_and(|token| token.text == "{");
        let names = if group { &after[1..] } else { &after[..after.len().min(1)] };
        let names = names.iter().take_while(|token| token.text != "}");
        let harmless = ["Result", "panicking", "self", ","];
        found.extend(names.filter(|token| !harmless.contains(&token.text)));
    }
    found
}

/// Finds every `allow(unsafe_code)` that is not an attribute of `mod name;` in a crate's root.
fn opt_ins(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.sources("").filter(|(path, _)| !is_test_file(path)) {
        let code = without_tests(&tokens(text));
        let root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
        for (at, token) in code.iter().enumerate().filter(|(_, token)| token.text == "unsafe_code")
        {
            let level = at.checked_sub(2).map(|n| code[n].text);
            if matches!(level, Some("deny" | "forbid")) {
                continue;
            }
            // From `#[allow(unsafe_code` skip to behind `]`, over other attributes and `pub(..)`.
            let outer = at >= 4 && code[at - 4].text == "#" && code[at - 3].text == "[";
            let rest: Vec<&str> = code[at..].iter().map(|t| t.text).take(40).collect();
            let on_mod = rest.iter().position(|t| *t == "mod").is_some_and(|n| {
                let between = &rest[..n];
                !between.iter().any(|t| matches!(*t, ";" | "{" | "}" | "fn" | "impl"))
                    && rest.get(n + 2) == Some(&";")
            });
            if !(root && outer && on_mod) {
                let what = "unsafe code is let in at the `mod` line of the crate's root only";
                findings.push(Finding::new(path, token.line, what));
            }
        }
    }
    findings
}
