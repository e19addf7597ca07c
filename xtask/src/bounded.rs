//! Runs one step of a chore for a limited time.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::channel,
    thread,
    time::{Duration, Instant},
};

/// How long a step may take to end after an interrupt: its own children end in that time.
const GRACE: Duration = Duration::from_secs(15);
/// How long the output of a step may stay open after its end.
const LAST_OUTPUT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);
/// How many lines of the output an error repeats.
const LINES: usize = 20;

/// Runs a step, and ends it when its time is over.
///
/// # Errors
///
/// When the step fails, cannot be started, or takes longer.
pub(crate) fn run(what: &str, limit: Duration, command: &mut Command) -> Result<(), String> {
    eprintln!("==> {what}");
    let child = command.stdin(Stdio::null()).spawn();
    let child = child.map_err(|e| format!("{what}: could not be started: {e}"))?;
    checked(what, within(limit, child))
}

/// Like [`run`]; the error repeats the lines of the output that begin with one of these texts.
///
/// # Errors
///
/// When the step fails, cannot be started, or takes longer, and when its output cannot be copied.
pub(crate) fn run_repeating(
    what: &str,
    limit: Duration,
    command: &mut Command,
    beginnings: &'static [&'static str],
) -> Result<(), String> {
    eprintln!("==> {what}");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|e| format!("{what}: could not be started: {e}"))?;
    let output = child.stdout.take();
    let (copied, copying) = channel();
    thread::spawn(move || {
        let lines = output.map(|output| copy(output, &mut io::stdout(), beginnings));
        copied.send(lines.unwrap_or_else(|| Ok(Vec::new())))
    });
    let ended = checked(what, within(limit, child));
    // A process that outlives its test may hold the output open.
    let lines = match copying.recv_timeout(LAST_OUTPUT) {
        Ok(lines) => lines.map_err(|e| format!("{what}: the output could not be copied: {e}"))?,
        Err(_) => vec!["a process that this step started still holds its output".to_owned()],
    };
    ended.map_err(|why| {
        format!("{why}\n  {}", lines.join("\n  "))
            .trim_end()
            .to_owned()
    })
}

fn checked(what: &str, ended: Result<ExitStatus, String>) -> Result<(), String> {
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what}: {status}")),
        Err(why) => Err(format!("{what}: {why}")),
    }
}

/// Waits for the end of a process. After its time it is interrupted, then killed.
fn within(limit: Duration, mut child: Child) -> Result<ExitStatus, String> {
    if let Some(status) = end_of(&mut child, limit)? {
        return Ok(status);
    }
    let id = child.id().to_string();
    let interrupted = Command::new("kill").args(["-INT", &id]).status();
    interrupted.map_err(|e| format!("could not be interrupted: {e}"))?;
    if end_of(&mut child, GRACE)?.is_none() {
        let killed = child.kill().and_then(|()| child.wait());
        killed.map_err(|e| format!("could not be killed: {e}"))?;
    }
    Err(format!("did not end within {limit:?} and was ended"))
}

fn end_of(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>, String> {
    let end = Instant::now() + limit;
    loop {
        let status = child.try_wait();
        let status = status.map_err(|e| format!("could not be waited for: {e}"))?;
        if status.is_some() || Instant::now() >= end {
            return Ok(status);
        }
        thread::sleep(POLL);
    }
}

/// Copies the output, and returns the first lines that begin with one of the texts.
fn copy(output: impl Read, to: &mut impl Write, beginnings: &[&str]) -> io::Result<Vec<String>> {
    let (mut output, mut line, mut lines) = (BufReader::new(output), Vec::new(), Vec::new());
    while output.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        let text = String::from_utf8_lossy(&line);
        let is_wanted = beginnings.iter().any(|start| text.starts_with(start));
        if is_wanted && lines.len() < LINES {
            lines.push(text.trim_end().to_owned());
        }
        line.clear();
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn sh(script: &str) -> Command {
        let mut sh = Command::new("sh");
        sh.args(["-c", script]);
        sh
    }

    #[test]
    fn a_step_that_fails_is_named_with_its_exit_code() {
        assert_eq!(run("a step", LONG, &mut sh("exit 0")), Ok(()));
        let error = run("a step", LONG, &mut sh("exit 7")).unwrap_err();
        assert_eq!(error, "a step: exit status: 7");
        let error = run("a step", LONG, &mut Command::new("/no/such/program")).unwrap_err();
        assert!(
            error.starts_with("a step: could not be started: "),
            "{error}"
        );
    }

    #[test]
    fn a_step_that_takes_too_long_is_interrupted_and_named() {
        let started = Instant::now();
        let error = run("a step", Duration::ZERO, Command::new("sleep").arg("600"));
        let error = error.unwrap_err();
        assert_eq!(error, "a step: did not end within 0ns and was ended");
        assert!(started.elapsed() < GRACE, "the interrupt did not end it");
    }

    #[test]
    fn the_error_repeats_the_lines_that_say_what_has_failed() {
        let mut step = sh("echo FAILED a; echo passed b; echo ERROR c; exit 1");
        let error = run_repeating("a step", LONG, &mut step, &["FAILED ", "ERROR "]).unwrap_err();
        assert_eq!(error, "a step: exit status: 1\n  FAILED a\n  ERROR c");
        let mut step = sh("echo FAILED a");
        assert_eq!(
            run_repeating("a step", LONG, &mut step, &["FAILED "]),
            Ok(())
        );
    }

    #[test]
    fn an_error_repeats_twenty_lines_at_most() {
        let (output, mut copied) = ("FAILED\nno\n".repeat(30), Vec::new());
        let lines = copy(output.as_bytes(), &mut copied, &["FAILED"]).unwrap();
        assert_eq!(lines, vec!["FAILED"; LINES]);
        assert_eq!(copied, output.as_bytes());
    }
}
