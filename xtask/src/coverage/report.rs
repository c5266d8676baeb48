//! std's items beside bast's, as a document.

use std::fmt::Write;

use super::list::{Item, List};
use super::reasons::{self, Reason};

/// Names that differ: a fiber is bast's thread.
const RENAMED: [(&str, &str); 2] = [("FiberId", "ThreadId"), ("Fiber", "Thread")];

const HEAD: &str = "# What of std is covered

Every stable item of std 1.95 in the modules that bast has the shape of, as they are on Linux (`os::windows`: on Windows). *Covered*:
bast has an item of its own under the same path, with all that is listed behind it. *Re-exported*: it is std's. Made by
`cargo xtask coverage --write` from rustdoc's pages of both; CI compares.
";

/// What became of one item.
enum Fate<'a> {
    Reexported,
    Covered { has: Vec<String>, lacks: Vec<(String, &'a str)> },
    LeftOut(&'a str),
}

/// The document.
///
/// # Errors
/// Lists what has no counterpart and no reason, and the reasons that nothing needs.
pub(super) fn make(std: &List, bast: &List, reasons: &[Reason]) -> Result<String, String> {
    let mut faults = Vec::new();
    let mut out = String::new();
    let (mut module, mut counts) = ("", [0; 3]);
    for (path, item) in std {
        let (parent, name) = path.rsplit_once("::").unwrap_or(("", path));
        if parent != module {
            module = parent;
            let _ = write!(out, "\n## std::{module}\n\n");
        }
        let fate = fate(path, item, bast, reasons, &mut faults);
        let _ = write!(out, "* `{name}` ({}): ", item.kind);
        match fate {
            Fate::Reexported => {
                counts[1] += 1;
                out.push_str("re-exported\n");
            }
            Fate::LeftOut(why) => {
                counts[2] += 1;
                let _ = writeln!(out, "**left out**: {why}");
            }
            Fate::Covered { has, lacks } => {
                counts[0] += 1;
                out.push_str("covered");
                out.push_str(&parts(name, &has));
                out.push('\n');
                for (member, why) in lacks {
                    let _ = writeln!(out, "  * `{member}` **left out**: {why}");
                }
            }
        }
    }
    faults.extend(
        reasons::unused(reasons).map(|what| format!("nothing needs the reason for {what}")),
    );
    if !faults.is_empty() {
        return Err(format!("{}\n{} faults", faults.join("\n"), faults.len()));
    }
    let [covered, reexported, left_out] = counts;
    Ok(format!(
        "{HEAD}\n{covered} items are covered, {reexported} re-exported, {left_out} left out.\n{out}"
    ))
}

/// What an item has: first what is its own, then its traits, by their names alone where that is clear.
fn parts(name: &str, has: &[String]) -> String {
    let (mut own, mut traits) = (Vec::new(), Vec::new());
    for member in has {
        match member.strip_prefix("impl ") {
            None => own.push(format!("`{member}`")),
            Some(of) => {
                let (what, whose) = of.split_once(" for ").unwrap_or((of, name));
                let itself = whose.strip_prefix(name);
                let itself = itself.is_some_and(|rest| rest.is_empty() || rest.starts_with('<'));
                traits.push(format!("`{}`", if itself { what } else { of }));
            }
        }
    }
    let lists =
        [(": ", own), ("; traits ", traits)].into_iter().filter(|(_, list)| !list.is_empty());
    lists.map(|(before, list)| format!("{before}{}", list.join(", "))).collect()
}

fn fate<'a>(
    path: &str,
    item: &Item,
    bast: &List,
    reasons: &'a [Reason],
    faults: &mut Vec<String>,
) -> Fate<'a> {
    // The item itself, or a module around it that is std's.
    let mut prefix = path;
    let ours = loop {
        match (bast.get(prefix), prefix.rsplit_once("::")) {
            (Some(ours), _) => break Some(ours),
            (None, Some((shorter, _))) => prefix = shorter,
            (None, None) => break None,
        }
    };
    let Some(ours) = ours.filter(|ours| prefix == path || ours.reexported.is_some()) else {
        let why = reasons::find(reasons, path);
        if why.is_none() {
            faults.push(format!("{path} is not in bast, and no reason is given"));
        }
        return Fate::LeftOut(why.unwrap_or_default());
    };
    if let Some(from) = &ours.reexported {
        if !from.starts_with("std::") {
            faults
                .push(format!("{path} comes from {from}: it needs #[doc(inline)] to be compared"));
        }
        return Fate::Reexported;
    }
    let members: Vec<String> = ours.members.iter().map(|member| as_std_names(member)).collect();
    let (mut has, mut lacks) = (Vec::new(), Vec::new());
    for member in &item.members {
        let for_all = member.split_once(" for ").map(|(what, _)| format!("{what} for T"));
        if members.contains(member) || for_all.is_some_and(|it| members.contains(&it)) {
            has.push(member.clone());
            continue;
        }
        let what = match member.split_once(' ') {
            Some(_) => format!("{path}: {member}"),
            None => format!("{path}::{member}"),
        };
        match reasons::find(reasons, &what) {
            Some(why) => lacks.push((member.clone(), why)),
            None => faults.push(format!("{what} is not in bast, and no reason is given")),
        }
    }
    Fate::Covered { has, lacks }
}

fn as_std_names(member: &str) -> String {
    RENAMED.iter().fold(member.to_owned(), |text, (ours, std)| text.replace(ours, std))
}

#[cfg(test)]
mod tests {
    use super::super::{list, reasons};
    use super::make;

    #[test]
    fn what_is_neither_there_nor_explained_is_a_fault() {
        let std = list::parse("fs::File struct\n    impl Read for File\n    open\nfs::copy fn\n")
            .unwrap();
        let bast = list::parse("fs::File struct\n    open\n").unwrap();
        let make = |text: &str| make(&std, &bast, &reasons::parse(text).unwrap());
        let enough = "fs::copy = later\nfs::File: impl Read for * = sealed\n";
        let report = make(enough).unwrap();
        assert!(report.contains("* `File` (struct): covered: `open`\n"), "{report}");
        let bast = list::parse("fs::File struct\n    impl Read for File\n    open\nfs::copy fn\n")
            .unwrap();
        let report = super::make(&std, &bast, &[]).unwrap();
        assert!(report.contains("covered: `open`; traits `Read`\n"), "{report}");
        assert!(make(enough).unwrap().contains("  * `impl Read for File` **left out**: sealed"));
        assert!(make(enough).unwrap().contains("* `copy` (fn): **left out**: later"));
        assert!(make("fs::copy = later").unwrap_err().contains("fs::File: impl Read"));
        assert!(make(&format!("{enough}x = y")).unwrap_err().contains("nothing needs"));
    }
}
