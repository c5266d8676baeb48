//! The dump as JSON: a page of writing, which is not worth a dependency.

use std::fmt::{self, Write};
use std::panic::Location;

use super::dump::{Dump, FiberDump, Frame, WorkerDump, WorkerState};

/// A string with its quotes. Everything below a space is escaped, as are quote and backslash.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// A value, or null.
struct Maybe<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// An address, in quotes: JSON's numbers are no integers of 64 bits.
struct Address(usize);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{:#x}\"", self.0)
    }
}

/// A line of the program.
struct Place(&'static Location<'static>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line, column) = (Text(self.0.file()), self.0.line(), self.0.column());
        write!(f, "{{\"file\":{file},\"line\":{line},\"column\":{column}}}")
    }
}

fn list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T) -> fmt::Result,
) -> fmt::Result {
    out.push('[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(out, item)?;
    }
    out.push(']');
    Ok(())
}

pub(super) fn write(dump: &Dump) -> String {
    let mut out = String::new();
    let written = whole(&mut out, dump);
    debug_assert!(written.is_ok(), "writing to a string does not fail");
    out
}

fn whole(out: &mut String, dump: &Dump) -> fmt::Result {
    out.push_str("{\"runtimes\":");
    list(out, &dump.runtimes, |out, runtime| {
        let bound = if runtime.bound { "\"bound\":true," } else { "" };
        write!(out, "{{\"runtime\":{},{bound}\"workers\":", runtime.number)?;
        list(out, runtime.workers.iter().enumerate(), worker)?;
        out.push_str(",\"tasks\":");
        list(out, &runtime.tasks, |out, (site, count)| {
            write!(out, "{{\"spawned_at\":{},\"count\":{count}}}", Place(site))
        })?;
        out.push('}');
        Ok(())
    })?;
    out.push_str(",\"threads\":");
    list(out, &dump.threads, |out, thread| {
        write!(
            out,
            "{{\"id\":{},\"name\":{},\"waits_in\":{},\"object\":{},\"waits_for\":{}}}",
            thread.id,
            Maybe(thread.name.as_deref().map(Text)),
            Text(thread.wait.what),
            Maybe((thread.wait.object != 0).then_some(Address(thread.wait.object))),
            Maybe((thread.wait.holder != 0).then_some(thread.wait.holder)),
        )
    })?;
    out.push_str(",\"stacks\":");
    list(out, &dump.stacks, |out, stack| list(out, stack, frame))?;
    out.push_str("}\n");
    Ok(())
}

fn worker(out: &mut String, (index, worker): (usize, &WorkerDump)) -> fmt::Result {
    let (state, driver, held) = match worker.state {
        WorkerState::Well { driver } => ("well", Some(Text(driver)), None),
        WorkerState::Held { at_least } => ("held", None, Some(at_least.as_nanos())),
        WorkerState::Ended => ("ended", None, None),
    };
    write!(
        out,
        "{{\"worker\":{index},\"state\":\"{state}\",\"driver\":{},\"held_nanoseconds\":{},\
         \"live\":{},\"ready\":{},\"not_started\":{},\"fibers\":",
        Maybe(driver),
        Maybe(held),
        worker.live,
        worker.ready,
        worker.fresh,
    )?;
    list(out, &worker.fibers, fiber)?;
    out.push('}');
    Ok(())
}

fn fiber(out: &mut String, fiber: &FiberDump) -> fmt::Result {
    let wait = fiber.wait.as_ref();
    let object = wait.map(|wait| wait.object).filter(|&object| object != 0);
    write!(
        out,
        "{{\"id\":{},\"name\":{},\"state\":\"{}\",\"unwinding\":{},\"cancel_requested\":{},\
         \"waits_in\":{},\"descriptor\":{},\"object\":{},\"waits_for\":{},\"nanoseconds\":{},\
         \"spawned_at\":{},\"stack\":{}}}",
        fiber.id,
        Maybe(fiber.name().map(Text)),
        fiber.state,
        fiber.unwinding,
        fiber.cancelled,
        Maybe(wait.map(|wait| Text(wait.what))),
        Maybe(fiber.descriptor()),
        Maybe(object.map(Address)),
        Maybe(fiber.waits_for()),
        Maybe(fiber.since.map(|since| since.as_nanos())),
        Place(fiber.site),
        fiber.stack,
    )
}

fn frame(out: &mut String, frame: &Frame) -> fmt::Result {
    write!(
        out,
        "{{\"function\":{},\"file\":{},\"line\":{},\"address\":{}}}",
        Maybe(frame.function().map(Text)),
        Maybe(frame.file().map(Text)),
        Maybe(frame.line()),
        Address(frame.ip),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_does_not_allow_is_escaped() {
        let text = Text("a \"b\" \\ c\n\t\r\u{1}\u{1f} \u{e4}\u{1f980}").to_string();
        assert_eq!(text, "\"a \\\"b\\\" \\\\ c\\n\\t\\r\\u0001\\u001f \u{e4}\u{1f980}\"");
        assert_eq!(Maybe(None::<u8>).to_string(), "null");
        assert_eq!(Address(255).to_string(), "\"0xff\"");
    }
}
