//! The edges between the crates (DESIGN, section 2). Dependencies of tests are free.

use super::tree::Tree;
use super::{Check, Finding};

pub(super) const CHECKS: &[Check] = &[Check {
    rule: "crates depend on what DESIGN lets them depend on",
    run: edges,
    canaries: &[
        |tree| tree.depend("bast-io", "bast-coro", None),
        |tree| tree.depend("bast-coro", "bast-io", None),
        |tree| tree.depend("bast-rt", "libc", None),
        |tree| tree.depend("bast", "libc", None),
        |tree| tree.depend("bast-rt", "loom", None),
        |tree| tree.depend("bast-hyper", "bast-rt", None),
        |tree| tree.depend("bast-coro", "cc", Some("build")),
        |tree| tree.depend("bast-tokio", "bast-rt", None),
        |tree| tree.depend("bast-examples", "bast-rt", None),
        |tree| tree.packages.retain(|package| package.name != "bast-io"),
    ],
}];

/// Each crate and what it may depend on. A name in the second list is allowed under `cfg(loom)`.
const EDGES: &[(&str, &[&str], &[&str])] = &[
    ("bast-coro", &["corosensei", "libc", "windows-sys"], &[]),
    ("bast-io", &["io-uring", "libc", "windows-sys"], &["loom"]),
    // backtrace: to walk stacks, and to name what is found, which takes a reader of debug information.
    (
        "bast-rt",
        &[
            "async-task",
            "backtrace",
            "bast-coro",
            "bast-io",
            "crossbeam-deque",
            "slab",
            "tracing-core",
        ],
        &["loom"],
    ),
    ("bast-sync", &["bast-rt"], &["loom"]),
    // rayon: behind a feature, for `compute`. The traits of futures-io and futures-core, for `future::io`.
    (
        "bast",
        &[
            "bast-coro",
            "bast-io",
            "bast-rt",
            "bast-sync",
            "futures-core",
            "futures-io",
            "rayon",
            "typeid",
        ],
        &[],
    ),
    // Stands on the face, beside it: what hyper asks of a runtime. Of tokio the channels, which know no runtime.
    (
        "bast-hyper",
        &[
            "bast",
            "futures-io",
            "http",
            "http-body-util",
            "hyper",
            "hyper-util",
            "pin-project-lite",
            "tokio",
            "tower-service",
        ],
        &[],
    ),
    // Outside, on the face alone: what joins bast to tokio.
    ("bast-tokio", &["bast", "pin-project-lite", "self_cell", "tokio"], &[]),
];

fn edges(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fault = |package: &str, what: String| {
        findings.push(Finding::new(&format!("crates/{package}/Cargo.toml"), 1, what));
    };
    for (name, allowed, under_loom) in EDGES {
        let Some(package) = tree.packages.iter().find(|package| package.name == *name) else {
            fault(name, "the crate is missing".into());
            continue;
        };
        for dependency in package.dependencies.iter().filter(|d| d.kind.as_deref() != Some("dev")) {
            let known = dependency.name.as_str();
            let loom = dependency.target.as_deref() == Some("cfg(loom)");
            if dependency.kind.is_some()
                || !(allowed.contains(&known) || under_loom.contains(&known))
            {
                fault(name, format!("{name} must not depend on {known}"));
            } else if under_loom.contains(&known) && !loom {
                fault(name, format!("{name} may depend on {known} under cfg(loom) only"));
            }
        }
    }
    // What is no part of bast uses it by its face, so that the face is known to be enough.
    let examples = tree.packages.iter().filter(|package| package.name == "bast-examples");
    for dependency in examples.flat_map(|package| &package.dependencies) {
        if dependency.name.starts_with("bast-") {
            let what = format!("the examples use bast, not {}", dependency.name);
            findings.push(Finding::new("examples/Cargo.toml", 1, what));
        }
    }
    findings
}
