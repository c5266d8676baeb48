//! The rules that neither the compiler nor clippy knows (DESIGN, sections 2 and 5), as code.
//!
//! ```text
//!   git ls-files --> Tree --> Check::run --> findings (path:line: what)
//!   cargo metadata -/  ^
//!                      | the fixture: a small tree without fault
//!   canary: fixture + one deliberate fault --> the check must find it
//! ```
//!
//! Each check brings its canaries. They are tried by `cargo test`, and again in front of every real
//! run: a check that cannot fail says nothing when it passes.

mod crates;
mod files;
mod lexer;
mod text;
mod tree;
mod words;

use crate::steps::Context;
use tree::Tree;

/// A breach of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.into(), line, what: what.into() }
    }
}

/// One rule.
struct Check {
    /// The rule in a few words.
    rule: &'static str,
    /// Finds every breach.
    run: fn(&Tree) -> Vec<Finding>,
    /// Each puts one fault into the tree.
    canaries: &'static [fn(&mut Tree)],
}

fn checks() -> impl Iterator<Item = &'static Check> {
    [crates::CHECKS, words::CHECKS, files::CHECKS, text::CHECKS].into_iter().flatten()
}

/// Whether the check finds nothing in a tree without fault, and something in each faulty one.
fn try_canaries(check: &Check) -> Result<(), String> {
    let found = (check.run)(&Tree::fixture());
    if !found.is_empty() {
        return Err(format!("{:?} finds a fault where none is: {found:?}", check.rule));
    }
    for (number, spoil) in check.canaries.iter().enumerate() {
        let mut tree = Tree::fixture();
        spoil(&mut tree);
        if (check.run)(&tree).is_empty() {
            return Err(format!("{:?} does not see the fault of its canary {number}", check.rule));
        }
    }
    Ok(())
}

/// The step: first the canaries, then the real tree.
pub(crate) fn run(context: &Context) -> Result<(), String> {
    checks().try_for_each(try_canaries)?;
    let tree = Tree::load(&context.root, &context.metadata)?;
    let mut faults = 0;
    for check in checks() {
        let mut findings = (check.run)(&tree);
        findings.sort();
        faults += findings.len();
        let verdict = if findings.is_empty() { "ok" } else { "BROKEN" };
        println!("{verdict:<7} {}", check.rule);
        for Finding { path, line, what } in findings {
            println!("        {path}:{line}: {what}");
        }
    }
    if faults > 0 { Err(format!("{faults} breaches")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::{checks, try_canaries};

    #[test]
    fn every_check_sees_its_canaries_and_nothing_else() {
        for check in checks() {
            assert!(!check.canaries.is_empty(), "{:?} has no canary", check.rule);
            assert_eq!(try_canaries(check), Ok(()));
        }
    }
}
