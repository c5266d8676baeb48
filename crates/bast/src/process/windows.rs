//! How the end of a child is heard of, and brought about: its handle, which is signalled, and a job.
//!
//! ```text
//!   start ─▶ suspended ─▶ into a job of its own ─▶ goes on      if all that it starts is to end with it
//!   attend ─▶ a poll of its handle
//!   ask ────▶ Ctrl-Break, if it has a process group of its own
//!   kill ───▶ the job, if it is in one; else the child
//! ```
//!
//! A process belongs to the job of the one that has started it. So the child is put there before it has run:
//! none that it starts is left out.

use std::io;
use std::os::windows::io::AsHandle;
use std::os::windows::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use bast_io::Interest;
use bast_io::job::{self, CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED, Job, KILLED};
use bast_io::{Handle, child};
use bast_rt::ops;

/// What a command says of the children to come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// `creation_flags`.
    pub(crate) flags: u32,
}

/// A child, and whatever is to end with it.
pub(super) struct Tree {
    /// With all that the child has started.
    job: Option<Job>,
    /// Whether it has a process group of its own.
    leads: bool,
    /// What is polled for its end, if somebody has.
    end: Option<Handle>,
}

/// Starts a child. To be called on the pool.
pub(super) fn start(command: &mut Command, how: How, kill: bool) -> io::Result<(Child, Tree)> {
    let leads = how.flags & CREATE_NEW_PROCESS_GROUP != 0;
    if !leads && !kill {
        return Ok((command.spawn()?, Tree { job: None, leads, end: None }));
    }
    let job = Job::new()?;
    command.creation_flags(how.flags | CREATE_SUSPENDED);
    let child = command.spawn();
    command.creation_flags(how.flags);
    let mut child = child?;
    let begun = job.assign(child.as_handle()).and_then(|()| {
        // Whoever wants it suspended lets it go on himself.
        if how.flags & CREATE_SUSPENDED == 0 { job::resume(child.as_handle()) } else { Ok(()) }
    });
    match begun {
        Ok(()) => Ok((child, Tree { job: Some(job), leads, end: None })),
        Err(error) => {
            // It has not run.
            let _ = child.kill();
            Err(error)
        }
    }
}

impl Tree {
    /// Waits for the end of the child, or for a time.
    pub(super) fn attend(&mut self, std: &Child, limit: Option<Duration>) -> io::Result<()> {
        let end = match &self.end {
            Some(end) => end,
            None => self.end.insert(child::watch(std.as_handle())?),
        };
        ops::poll(end, Interest::Readable, limit)
    }

    /// Asks the child, which has not been waited for, to end, if there is a way.
    pub(super) fn ask(&self, std: &Child) -> io::Result<()> {
        // Without a console there is none.
        if self.leads {
            let _ = job::ask_to_end(std.id());
        }
        Ok(())
    }

    /// Ends it, and all that it has started if it is in a job.
    pub(super) fn kill(&self, std: &Child) -> io::Result<()> {
        match &self.job {
            Some(job) => job.terminate(),
            None => match child::terminate(std.as_handle(), KILLED) {
                Err(_) if child::has_ended(std.as_handle()) => Ok(()),
                result => result,
            },
        }
    }
}
