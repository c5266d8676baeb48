//! `file-read` without a runtime: the loop that somebody writes who has only this to do. It keeps 64 reads in
//! flight, submits what has come free and waits for one, in one system call.

use super::random::{aligned, flags};
use super::sample::{Offsets, Sample, check};
use super::{BLOCK, DEPTH, Stopwatch};
use crate::micro::{Job, Values};
use crate::sys;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Instant;

pub(super) fn run(job: &Job) -> io::Result<Values> {
    let sample = Sample::big()?;
    let file = File::options().read(true).custom_flags(flags(job)).open(sample.big_file())?;
    let mut offsets: Vec<_> = (0..DEPTH).map(|task| Offsets(task as u64 + 1)).collect();
    let mut spaces: Vec<_> = (0..DEPTH).map(|_| vec![0; 2 * BLOCK]).collect();
    let blocks = spaces.iter_mut().map(|space| aligned(space)).collect();
    let mut at = vec![0; DEPTH];
    let mut ring = sys::ReadRing::new(&file, blocks)?;
    let mut read = |ring: &mut sys::ReadRing, slot: usize, at: &mut [u64]| {
        at[slot] = offsets[slot].next();
        ring.read(slot, at[slot])
    };
    for slot in 0..DEPTH {
        read(&mut ring, slot, &mut at)?;
    }
    let warm = Instant::now() + job.span.warm;
    let end = warm + job.span.measure;
    let (mut reads, mut watch) = (0, None);
    let mut done = Vec::with_capacity(DEPTH);
    loop {
        ring.wait(&mut done)?;
        for &slot in &done {
            check(ring.block(slot), 0, at[slot])?;
            reads += 1;
            read(&mut ring, slot, &mut at)?;
        }
        let now = Instant::now();
        match &watch {
            None if now >= warm => (reads, watch) = (0, Some(Stopwatch::start()?)),
            Some(watch) if now >= end => return watch.each(reads),
            _ => {}
        }
    }
}
