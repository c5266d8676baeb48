//! Lines become commands.
//!
//! Without a template a line is a command, with a shell's quotes: it is taken apart here, and run without a shell. With
//! one, the line is an argument: it stands for each `{}` of the template, or comes last if there is none.

use std::fmt;

use crate::os::SHELL;

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The number of its line, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// Program and arguments: at least the program.
    pub words: Vec<String>,
}

/// A line that is no command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    line: usize,
    text: String,
    why: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.why, self.text)
    }
}

/// How lines are read.
#[derive(Clone, Debug)]
pub enum Form {
    /// Commands, taken apart here.
    Commands,
    /// Commands for a shell.
    Shell,
    /// Arguments of this command.
    Arguments(Vec<String>),
}

/// The jobs that are in `text`; empty lines and, of commands, those that begin with `#` are none.
///
/// # Errors
/// The first line that is no command.
pub fn parse(text: &str, form: &Form) -> Result<Vec<Job>, BadLine> {
    let lines = text.lines().enumerate().filter(|(_, line)| match form {
        Form::Arguments(_) => !line.is_empty(),
        _ => !line.trim().is_empty() && !line.trim_start().starts_with('#'),
    });
    lines.map(|(n, line)| job(n + 1, line, form)).collect()
}

fn job(line: usize, text: &str, form: &Form) -> Result<Job, BadLine> {
    let bad = |why: String| BadLine { line, text: text.to_owned(), why };
    if text.contains('\0') {
        return Err(bad("a NUL character".into()));
    }
    let words = match form {
        Form::Commands => shell_words::split(text).map_err(|fault| bad(fault.to_string()))?,
        Form::Shell => [SHELL[0], SHELL[1], text].map(str::to_owned).into(),
        Form::Arguments(template) if template.iter().any(|word| word.contains("{}")) => {
            template.iter().map(|word| word.replace("{}", text)).collect()
        }
        Form::Arguments(template) => {
            template.iter().map(String::as_str).chain([text]).map(str::to_owned).collect()
        }
    };
    if words.first().is_none_or(String::is_empty) {
        return Err(bad("no program to run".into()));
    }
    Ok(Job { line, text: text.to_owned(), words })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str, form: &Form) -> Vec<Vec<String>> {
        parse(text, form).unwrap().into_iter().map(|job| job.words).collect()
    }

    #[test]
    fn lines_are_taken_apart() {
        let text = "echo 'a b' \"c\" d\\ e\n\n  # not this\nls\n";
        assert_eq!(words(text, &Form::Commands), [vec!["echo", "a b", "c", "d e"], vec!["ls"]]);
        assert_eq!(parse(text, &Form::Commands).unwrap()[1].line, 4);
        let [shell, flag] = if cfg!(windows) { ["cmd", "/C"] } else { ["sh", "-c"] };
        assert_eq!(words("a | b", &Form::Shell), [[shell, flag, "a | b"]]);
        let form = |words: &[&str]| Form::Arguments(words.iter().map(|w| w.to_string()).collect());
        assert_eq!(words("#a b\n\n", &form(&["ls", "-l"])), [["ls", "-l", "#a b"]]);
        assert_eq!(words("x", &form(&["cp", "{}", "{}.old"])), [["cp", "x", "x.old"]]);
    }

    #[test]
    fn bad_lines_are_named() {
        let fault = |text| parse(text, &Form::Commands).unwrap_err().to_string();
        assert_eq!(fault("ls\necho 'a"), "line 2: missing closing quote: echo 'a");
        assert_eq!(fault("''"), "line 1: no program to run: ''");
        assert!(fault("a\0b").contains("NUL"));
    }
}
