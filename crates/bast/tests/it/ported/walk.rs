//! A program for `super`: looks for a text in all files below a directory, with a few threads that take files from a
//! channel.

use super::std::fs::{self, File};
use super::std::io::{self, BufRead, BufReader, Write};
use super::std::sync::{Arc, Condvar, Mutex, mpsc};
use super::std::thread;
use std::path::{Path, PathBuf};

struct Hit {
    path: PathBuf,
    line: usize,
    text: String,
}

/// Sends every file below `dir`; links are not followed, so this ends.
fn files(dir: &Path, found: &mpsc::SyncSender<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            files(&entry.path(), found)?;
        } else if kind.is_file() && entry.metadata()?.len() > 0 {
            found.send(entry.path()).map_err(io::Error::other)?;
        }
    }
    Ok(())
}

fn search(path: &Path, what: &str, hits: &mpsc::Sender<Hit>) -> io::Result<()> {
    for (at, line) in BufReader::new(File::open(path)?).lines().enumerate() {
        let text = line?;
        if text.contains(what) {
            let hit = Hit { path: path.to_owned(), line: at + 1, text };
            hits.send(hit).map_err(io::Error::other)?;
        }
    }
    Ok(())
}

pub(crate) fn main(dir: &Path, out: &mut Vec<u8>) -> io::Result<()> {
    const THREADS: usize = 4;
    let (hit, hits) = mpsc::channel();
    let errors = Mutex::new(Vec::new());
    let ready = Arc::new((Mutex::new(0), Condvar::new()));
    thread::scope(|s| -> io::Result<()> {
        let (found, files_found) = mpsc::sync_channel::<PathBuf>(8);
        let queue = Arc::new(Mutex::new(files_found));
        for n in 0..THREADS {
            let (queue, hit, ready) = (Arc::clone(&queue), hit.clone(), Arc::clone(&ready));
            let errors = &errors;
            thread::Builder::new().name(format!("search-{n}")).spawn_scoped(s, move || {
                *ready.0.lock().unwrap() += 1;
                ready.1.notify_one();
                loop {
                    let Ok(path) = queue.lock().unwrap().recv() else { return };
                    if let Err(error) = search(&path, "needle", &hit) {
                        let name = path.strip_prefix(dir).unwrap().to_owned();
                        errors.lock().unwrap().push((name, error.kind()));
                    }
                }
            })?;
        }
        drop(queue);
        drop(ready.1.wait_while(ready.0.lock().unwrap(), |ready| *ready < THREADS).unwrap());
        files(dir, &found)
    })?;
    drop(hit);
    let mut hits: Vec<Hit> = hits.iter().collect();
    hits.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for Hit { path, line, text } in hits {
        writeln!(out, "{}:{line}: {text}", path.display())?;
    }
    let mut errors = errors.into_inner().unwrap();
    errors.sort();
    errors.iter().try_for_each(|(path, kind)| writeln!(out, "{}: {kind}", path.display()))
}
