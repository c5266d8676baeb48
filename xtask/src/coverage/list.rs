//! The items of a crate, from its pages, and as a text file.
//!
//! ```text
//!   fs::File struct          an item: its path and kind
//!       open                 what it has: a method, variant, associated type, …
//!       field stdin          … a field
//!       impl Read for &File  … a trait
//! ```

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::{cell::RefCell, fs};

use super::page;

/// An item's kind, from where it is re-exported without a page of its own, and what it has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) kind: String,
    pub(super) reexported: Option<String>,
    pub(super) members: Vec<String>,
}

/// By path, without the crate's name.
pub(super) type List = BTreeMap<String, Item>;

/// Adds the items of a module, whose pages are in `docs`; not those of the modules in it.
pub(super) fn add_module(list: &mut List, docs: &Path, module: &str) -> Result<(), String> {
    let dir = docs.join(module.replace("::", "/"));
    let unstable: RefCell<HashMap<String, bool>> = RefCell::default();
    let is_unstable = |link: &str| {
        *unstable.borrow_mut().entry(link.to_owned()).or_insert_with(|| {
            fs::read_to_string(dir.join(link)).is_ok_and(|page| page::is_unstable(&page))
        })
    };
    for entry in page::entries(&read(&dir.join("index.html"))?) {
        if entry.kind == "mod" {
            continue;
        }
        let name = entry.name;
        let mut item = Item { kind: entry.kind, reexported: entry.reexported, members: Vec::new() };
        if matches!(&*item.kind, "struct" | "enum" | "trait" | "union") {
            let page = read(&dir.join(format!("{}.{name}.html", item.kind)))?;
            item.members = page::members(&page, is_unstable);
        }
        list.insert(format!("{module}::{name}"), item);
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// As the file has it.
pub(super) fn write(list: &List) -> String {
    let mut out = String::new();
    for (path, item) in list {
        out.push_str(&format!("{path} {}\n", item.kind));
        for member in &item.members {
            out.push_str(&format!("    {member}\n"));
        }
    }
    out
}

/// The file read again; lines with `#` are comments.
pub(super) fn parse(text: &str) -> Result<List, String> {
    let mut list = List::new();
    let mut last = None;
    for (at, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fault = || format!("std-items.txt:{}: {line:?} is no item, nor part of one", at + 1);
        if let Some(member) = line.strip_prefix("    ") {
            let item: &mut Item =
                last.as_mut().and_then(|path| list.get_mut(path)).ok_or_else(fault)?;
            item.members.push(member.into());
        } else {
            let (path, kind) = line.split_once(' ').ok_or_else(fault)?;
            list.insert(path.into(), Item { kind: kind.into(), ..Item::default() });
            last = Some(String::from(path));
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::{parse, write};

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let text = "fs::File struct\n    impl Read for &File\n    open\nfs::copy fn\n";
        assert_eq!(write(&parse(text).unwrap()), text);
        assert!(parse("    open\n").is_err());
    }
}
