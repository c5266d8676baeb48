//! The path pattern: which files a device has.
//!
//! ```text
//!   {base}/{dc}/{id}/*.rrd  ──device──▶  components:  /data  ams  17  │ *.rrd
//!                                        taken as they are ───────────┘  └ matched against the directory
//! ```
//!
//! Wild are `*`, `?`, `[…]` and `{a,b}` of the pattern itself, never what a device's column brings: a host may be called
//! `[x]*`. `**` is any number of directories. Names are bytes, whatever they contain; those with a leading dot have to
//! be asked for. Files come in the order of their names, so that a run can be repeated.
//!
//! Directories are read with std's blocking calls: whoever calls [`Pattern::files`] does it on the blocking pool.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use globset::{GlobBuilder, GlobMatcher};

use crate::fd_limit;
use crate::job::Device;

/// As many matchers are kept. A pattern without device columns in its wild parts needs one for each of these.
const MATCHERS: usize = 64;

/// A path with columns and wild parts.
#[derive(Debug)]
pub struct Pattern {
    base: PathBuf,
    components: Vec<Component>,
    matchers: Mutex<HashMap<String, Arc<GlobMatcher>>>,
}

#[derive(Debug)]
struct Component {
    parts: Vec<Part>,
    wild: bool,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Column(String),
}

/// Files of one directory.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// The directory.
    pub dir: PathBuf,
    /// The files' names in it, sorted.
    pub names: Vec<Box<OsStr>>,
}

impl Pattern {
    /// A pattern below `base`, which is what `{base}` stands for.
    ///
    /// # Errors
    /// The pattern makes no sense; the text says why.
    pub fn new(pattern: &str, base: &Path) -> Result<Pattern, String> {
        let wrong = |what: &str| format!("pattern {pattern:?}: {what}");
        let (base, rest) = if let Some(rest) = pattern.strip_prefix("{base}") {
            (base.to_owned(), rest)
        } else if pattern.starts_with('/') {
            ("/".into(), pattern)
        } else {
            (".".into(), pattern)
        };
        let mut components = Vec::new();
        for text in rest.split('/').filter(|text| !text.is_empty()) {
            let component = Component::parse(text).map_err(|what| wrong(&what))?;
            components.push(component);
        }
        if components.is_empty() {
            return Err(wrong("names no file; try {base}/{dc}/{id}/*.rrd"));
        }
        let pattern = Pattern { base, components, matchers: Mutex::default() };
        // What is wrong with it is told now, not at each device.
        let columns: Vec<_> = pattern.columns().map(str::to_owned).collect();
        let fields = columns.into_iter().map(|column| (column, "x".to_owned())).collect();
        let device = Device { id: "x".into(), dc: "x".into(), name: "x".into(), fields };
        for component in pattern.components.iter().filter(|component| component.wild) {
            pattern.matcher(&component.glob(&device)?).map_err(|what| wrong(&what))?;
        }
        Ok(pattern)
    }

    /// The device columns that it needs.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.components.iter().flat_map(|component| &component.parts).filter_map(
            |part| match part {
                Part::Column(column) => Some(&**column),
                Part::Text(_) => None,
            },
        )
    }

    /// A device's files, by directory. None is no error, and neither is a directory that is not there.
    ///
    /// # Errors
    /// A directory cannot be read, or the device has a column that cannot be part of a path.
    pub fn files(&self, device: &Device) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        self.walk(&self.base, &self.components, device, &mut found)?;
        Ok(found)
    }

    fn walk(
        &self,
        dir: &Path,
        components: &[Component],
        device: &Device,
        found: &mut Vec<Found>,
    ) -> io::Result<()> {
        let Some((first, rest)) = components.split_first() else { return Ok(()) };
        if !first.wild {
            let name = first.literal(device).map_err(io::Error::other)?;
            let path = dir.join(&name);
            if !rest.is_empty() {
                return self.walk(&path, rest, device, found);
            }
            if exists(&path)? {
                found.push(Found { dir: dir.to_owned(), names: vec![OsString::from(name).into()] });
            }
            return Ok(());
        }
        if first.is_any_depth() {
            // No directory in between, or each of them.
            self.walk(dir, rest, device, found)?;
            for name in subdirectories(dir)? {
                self.walk(&dir.join(&*name), components, device, found)?;
            }
            return Ok(());
        }
        let glob = first.glob(device).map_err(io::Error::other)?;
        let matcher = self.matcher(&glob).map_err(io::Error::other)?;
        let hidden = glob.starts_with('.');
        let matches =
            |name: &OsStr| matcher.is_match(name) && (hidden || !name.as_bytes().starts_with(b"."));
        let names = list(dir, matches)?;
        if rest.is_empty() {
            if !names.is_empty() {
                found.push(Found { dir: dir.to_owned(), names });
            }
            return Ok(());
        }
        for name in names {
            self.walk(&dir.join(&*name), rest, device, found)?;
        }
        Ok(())
    }

    fn matcher(&self, glob: &str) -> Result<Arc<GlobMatcher>, String> {
        let mut matchers = self.matchers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(matcher) = matchers.get(glob) {
            return Ok(Arc::clone(matcher));
        }
        let glob_ = GlobBuilder::new(glob).literal_separator(true).backslash_escape(true).build();
        let matcher = Arc::new(glob_.map_err(|error| error.to_string())?.compile_matcher());
        if matchers.len() >= MATCHERS {
            matchers.clear();
        }
        matchers.insert(glob.to_owned(), Arc::clone(&matcher));
        Ok(matcher)
    }
}

impl Component {
    fn parse(text: &str) -> Result<Component, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let inside = &rest[at + 1..];
            let end = inside.find('}').ok_or("a { without its }")?;
            let name = &inside[..end];
            // `{a,b}` is the glob's: one of several.
            if name.contains(',') {
                parts.push(Part::Text(rest[..at + 1 + end + 1].to_owned()));
            } else if name == "base" {
                return Err("{base} can only be its beginning".into());
            } else if name.is_empty() {
                return Err("{} needs the name of a column".into());
            } else {
                parts.push(Part::Text(rest[..at].to_owned()));
                parts.push(Part::Column(name.to_owned()));
            }
            rest = &inside[end + 1..];
        }
        parts.push(Part::Text(rest.to_owned()));
        let wild = parts.iter().any(|part| match part {
            Part::Text(text) => text.contains(['*', '?', '[', '{', '\\']),
            Part::Column(_) => false,
        });
        Ok(Component { parts, wild })
    }

    fn is_any_depth(&self) -> bool {
        matches!(&*self.parts, [Part::Text(text)] if text == "**")
    }

    /// As a glob, with the device's columns quoted.
    fn glob(&self, device: &Device) -> Result<String, String> {
        self.fill(device, globset::escape)
    }

    fn literal(&self, device: &Device) -> Result<String, String> {
        self.fill(device, str::to_owned)
    }

    fn fill(&self, device: &Device, quote: impl Fn(&str) -> String) -> Result<String, String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Column(column) => {
                    let value = device.get(column).unwrap_or_default();
                    if value.contains(['/', '\0']) {
                        let id = &device.id;
                        return Err(format!(
                            "device {id:?}: its {column} {value:?} cannot be in a path"
                        ));
                    }
                    text.push_str(&quote(value));
                }
            }
        }
        // A column must not lead out of the base.
        if text == ".." && self.parts.iter().any(|part| matches!(part, Part::Column(_))) {
            return Err(format!("device {:?}: a column is \"..\"", device.id));
        }
        Ok(text)
    }
}

/// What is not there has nothing in it.
fn absent<T: Default>(result: io::Result<T>, path: &Path) -> io::Result<T> {
    match result {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(T::default())
        }
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        ok => ok,
    }
}

fn exists(path: &Path) -> io::Result<bool> {
    absent(fs::symlink_metadata(path).map(|_| true), path)
}

fn list(dir: &Path, wanted: impl Fn(&OsStr) -> bool) -> io::Result<Vec<Box<OsStr>>> {
    let read = || -> io::Result<Vec<Box<OsStr>>> {
        let mut names = Vec::new();
        for entry in fd_limit::open(std::thread::sleep, || fs::read_dir(dir))? {
            let name = entry?.file_name();
            if wanted(&name) {
                names.push(name.into());
            }
        }
        names.sort_unstable();
        Ok(names)
    };
    absent(read(), dir)
}

/// Not through symbolic links, which may lead in circles.
fn subdirectories(dir: &Path) -> io::Result<Vec<Box<OsStr>>> {
    let mut names = list(dir, |name| !name.as_bytes().starts_with(b"."))?;
    names.retain(|name| fs::symlink_metadata(dir.join(&**name)).is_ok_and(|what| what.is_dir()));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Device {
        let fields = vec![("rack".to_owned(), "[r]*".to_owned())];
        Device { id: "7".into(), name: "seven".into(), dc: "ams".into(), fields }
    }

    fn found(pattern: &str, base: &Path) -> Vec<String> {
        let found = Pattern::new(pattern, base).unwrap().files(&device()).unwrap();
        let paths = found.iter().flat_map(|f| f.names.iter().map(|name| f.dir.join(&**name)));
        paths.map(|path| path.strip_prefix(base).unwrap().display().to_string()).collect()
    }

    #[test]
    fn files_of_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path();
        for path in [
            "ams/7/b.rrd",
            "ams/7/a b.rrd",
            "ams/7/.hidden.rrd",
            "ams/7/a.txt",
            "ams/7/it's\n\"x\".rrd",
            "ams/8/a.rrd",
            "ams/[r]*/7.rrd",
            "ams/rx/7.rrd",
            "ams/7/deep/er/c.rrd",
        ] {
            fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
            fs::write(base.join(path), "").unwrap();
        }
        let here = ["ams/7/a b.rrd", "ams/7/b.rrd", "ams/7/it's\n\"x\".rrd"];
        assert_eq!(found("{base}/{dc}/{id}/*.rrd", base), here);
        assert_eq!(found("{base}/ams/7/{a,b}*.rrd", base), here[..2]);
        assert_eq!(found("{base}/{dc}/{id}/b.rrd", base), here[1..2]);
        assert_eq!(found("{base}/{dc}/{id}/**/*.rrd", base).len(), 4);
        // A column's value is no pattern, not even in a wild component.
        assert_eq!(found("{base}/{dc}/{rack}/{id}.rrd", base), ["ams/[r]*/7.rrd"]);
        assert_eq!(found("{base}/{dc}/*{rack}/{id}.rrd", base), ["ams/[r]*/7.rrd"]);
        assert_eq!(found("{base}/{dc}/{name}/*.rrd", base), [""; 0]);
        assert_eq!(found("{base}/{dc}/{id}/b.rrd/*.rrd", base), [""; 0]);
    }

    #[test]
    fn patterns_that_make_no_sense() {
        for (pattern, told) in [
            ("{base}", "names no file"),
            ("{base}/{id/x", "a { without its }"),
            ("{base}/{}/x", "needs the name of a column"),
            ("{base}/x{base}/x", "can only be its beginning"),
            ("{base}/[a/x", "unclosed character class"),
        ] {
            let error = Pattern::new(pattern, Path::new("/")).unwrap_err();
            assert!(error.contains(told), "{pattern}: {error}");
        }
    }

    #[test]
    fn a_column_leads_nowhere_else() {
        let pattern = Pattern::new("{base}/{id}/{name}", Path::new("/tmp")).unwrap();
        for (id, name) in [("..", "x"), ("x", ".."), ("a/b", "x")] {
            let device = Device { id: id.into(), name: name.into(), ..Device::default() };
            assert!(pattern.files(&device).is_err(), "{id} {name}");
        }
    }
}
