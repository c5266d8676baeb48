//! What the checks look at: the text files under version control and the packages with their
//! dependencies. It can be read from the disk, or made up for a canary.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The project as the checks see it.
pub(crate) struct Tree {
    /// Path from the root, with `/`, to the text.
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) packages: Vec<Package>,
}

/// A package of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A line of `[dependencies]` or of one of its sisters.
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for a normal one, otherwise `dev` or `build`.
    pub(crate) kind: Option<String>,
    /// The condition of `[target.'cfg(...)'.dependencies]`.
    pub(crate) target: Option<String>,
}

impl Tree {
    /// Reads what git knows or would take in, and what `cargo metadata` said.
    pub(crate) fn load(root: &Path, metadata: &Value) -> Result<Tree, String> {
        let listed = match listed_by_git(root) {
            Some(paths) => paths,
            None => {
                println!("note: git lists nothing here, so everything but target/ is looked at");
                let mut paths = Vec::new();
                walk(root, "", &mut paths).map_err(|e| format!("{}: {e}", root.display()))?;
                paths
            }
        };
        let mut files = BTreeMap::new();
        for path in listed {
            // A file that was removed but is still in the index is no file; binaries are no text.
            if let Ok(text) = fs::read_to_string(root.join(&path)) {
                files.insert(path, text);
            }
        }
        if files.is_empty() {
            return Err("there are no files".into());
        }
        Ok(Tree { files, packages: packages(metadata)? })
    }

    /// The Rust sources below a folder.
    pub(crate) fn sources<'a>(
        &'a self,
        folder: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
        let all = self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        all.filter(move |(path, _)| path.starts_with(folder) && path.ends_with(".rs"))
    }

    /// A small tree that breaks no rule, for the canaries to spoil.
    pub(crate) fn fixture() -> Tree {
        let mut files = BTreeMap::new();
        let mut add = |path: &str, text: &str| files.insert(path.to_string(), text.to_string());
        add("LICENSE-MIT", "MIT\n");
        add("LICENSE-APACHE", "Apache\n");
        add("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- New.\n");
        add("README.md", "# bast\n\n```\ncargo test\n```\n");
        for name in ["bast-coro", "bast-io", "bast-rt", "bast-sync", "bast"] {
            let path = format!("crates/{name}/src/lib.rs");
            add(&path, "//! A crate.\n\n#[allow(unsafe_code)]\nmod os;\nmod plain;\n");
            add(
                &format!("crates/{name}/src/plain.rs"),
                "//! Knows no fiber, no libc::read, no std::thread, no thread_local!.\n\n\
                 /// \"fiber\" in a text is no name.\npub(crate) const TEXT: &str = \"fiber\";\n\n\
                 fn f() -> std::thread::Result<bool> { Ok(std::thread::panicking()) }\n\n\
                 #[cfg(test)]\nmod tests {\n    use std::{thread::spawn, task::Waker};\n}\n",
            );
            add(
                &format!("crates/{name}/src/os/mod.rs"),
                "//! The system.\n\nfn f() {\n    // SAFETY: io 1.\n    unsafe { g() }\n}\n",
            );
        }
        add("crates/bast-rt/src/tls.rs", "//! The one.\n\nthread_local! { static A: u8 = 1; }\n");
        let edge = |name: &str, kind: Option<&str>, target: Option<&str>| Dependency {
            name: name.into(),
            kind: kind.map(String::from),
            target: target.map(String::from),
        };
        let package = |name: &str, dependencies| Package { name: name.into(), dependencies };
        let packages = vec![
            package(
                "bast-coro",
                vec![
                    edge("corosensei", None, None),
                    edge("libc", None, Some("cfg(unix)")),
                    edge("windows-sys", None, Some("cfg(windows)")),
                    edge("tokio", Some("dev"), None),
                ],
            ),
            package(
                "bast-io",
                vec![edge("io-uring", None, None), edge("loom", None, Some("cfg(loom)"))],
            ),
            package("bast-rt", vec![edge("bast-coro", None, None), edge("bast-io", None, None)]),
            package("bast-sync", vec![edge("bast-rt", None, None)]),
            package("bast", vec![edge("bast-rt", None, None)]),
            package("bast-hyper", vec![edge("bast", None, None), edge("hyper", None, None)]),
            package("bast-tokio", vec![edge("bast", None, None)]),
            package("bast-examples", vec![edge("anything", None, None)]),
        ];
        Tree { files, packages }
    }

    /// Appends to a file of the fixture, for a canary.
    pub(crate) fn append(&mut self, path: &str, text: &str) {
        self.files.entry(path.into()).or_default().push_str(text);
    }

    /// Adds an edge to a package of the fixture, for a canary.
    pub(crate) fn depend(&mut self, package: &str, on: &str, kind: Option<&str>) {
        let dependency = Dependency { name: on.into(), kind: kind.map(String::from), target: None };
        let found = self.packages.iter_mut().find(|p| p.name == package);
        found.expect("a package of the fixture").dependencies.push(dependency);
    }
}

/// What is under version control or would be taken in. `None` without git, or where git refuses (a
/// tree of another owner, an unpacked archive).
fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let listed = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| listed.split_terminator('\0').map(String::from).collect())
}

/// Every file below `folder`, but what git and cargo put there.
fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            if name != ".git" && name != "target" {
                walk(root, &path, paths)?;
            }
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

fn packages(metadata: &Value) -> Result<Vec<Package>, String> {
    let text = |value: &Value| value.as_str().map(String::from);
    let listed = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let package = |value: &Value| {
        let dependencies = value["dependencies"].as_array()?.iter().map(|dependency| {
            Some(Dependency {
                name: text(&dependency["name"])?,
                kind: text(&dependency["kind"]),
                target: text(&dependency["target"]),
            })
        });
        Some(Package {
            name: text(&value["name"])?,
            dependencies: dependencies.collect::<Option<_>>()?,
        })
    };
    listed.iter().map(package).collect::<Option<_>>().ok_or("cargo metadata is not as known".into())
}

#[cfg(test)]
mod tests {
    use super::{listed_by_git, packages, walk};
    use std::path::Path;

    #[test]
    fn files_are_found_with_and_without_git() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut walked = Vec::new();
        walk(root, "", &mut walked).unwrap();
        assert!(walked.contains(&"src/tidy/tree.rs".to_string()), "{walked:?}");
        if let Some(listed) = listed_by_git(root) {
            let mut there = listed.iter().filter(|path| root.join(path).is_file());
            assert!(there.all(|path| walked.contains(path)), "{listed:?}");
        }
    }

    #[test]
    fn metadata_is_read() {
        let text = r#"{"packages": [{"name": "a", "dependencies": [
            {"name": "b", "kind": null, "target": "cfg(loom)"},
            {"name": "c", "kind": "dev", "target": null}]}]}"#;
        let read = packages(&serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(read[0].name, "a");
        assert_eq!(read[0].dependencies[0].target.as_deref(), Some("cfg(loom)"));
        assert_eq!(read[0].dependencies[0].kind, None);
        assert_eq!(read[0].dependencies[1].kind.as_deref(), Some("dev"));
        assert!(packages(&serde_json::json!({})).is_err());
    }
}
