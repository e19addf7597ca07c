//! Turns the end of an attempt into the message to its task.

use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::Signal;
use windlass::{Json, Message};

use super::{awaited::Awaited, capture::Output, props::Props, watched::Ended};

/// How many lines of the command's own output the error text ends with.
const LAST_LINES: usize = 3;
const LAST_BYTES: usize = 600;

/// Returns the message that follows from the end of the command.
pub(super) fn conclude(
    ended: Ended,
    mut output: Output,
    awaited: &Awaited,
    props: &Props,
) -> Message {
    let reason = match ended {
        Ended::Stopped(stop) => return stop.message().with_data(&output),
        Ended::Waits(parked) => return parked.message().with_data(&output),
        Ended::Exited(Ok(status)) => match (status.code(), status.signal()) {
            (Some(code), _) if props.ok_exit_codes.iter().any(|ok| i32::from(*ok) == code) => {
                output.waits = None;
                // The result has the output; the data need not repeat it.
                let message = Message::complete_with(&output).with_json(Json::null());
                return awaited.reply(message);
            }
            (Some(code), _) => exit_code(code),
            (None, Some(number)) => format!("ended by {}", signal(number)),
            (None, None) => "ended in an unknown way".to_owned(),
        },
        Ended::TimedOut(limit) => format!("timed out after {limit:?}"),
        Ended::Exited(Err(e)) => format!("the command could not be waited for: {e}"),
    };
    let lines = last_lines(&output.stderr);
    let reason = if lines.is_empty() {
        reason
    } else {
        format!("{reason}: {lines}")
    };
    Message::error(reason).with_data(&output)
}

fn signal(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(Signal::SIGKILL) => format!("signal {number} (SIGKILL; {WHO_KILLS})"),
        Ok(signal) => format!("signal {number} ({signal})"),
        Err(_) => format!("signal {number}"),
    }
}

/// The usual senders of SIGKILL, other than a stop of the task, which has its own reason.
const WHO_KILLS: &str = "by the kernel when memory runs out, or by a user";

/// Returns the text of an exit code. A shell exits with 128 plus the number of the signal that
/// ended its command.
fn exit_code(code: i32) -> String {
    match Signal::try_from(code - 128) {
        Ok(_) => format!(
            "exit code {code}: a command in it was ended by {}",
            signal(code - 128)
        ),
        Err(_) => format!("exit code {code}"),
    }
}

/// Returns the last lines that are not empty.
fn last_lines(text: &str) -> String {
    let said = text.lines().rev().map(str::trim).filter(|l| !l.is_empty());
    let mut lines: Vec<&str> = said.take(LAST_LINES).collect();
    lines.reverse();
    let text = lines.join("\n");
    let begin = text.len().saturating_sub(LAST_BYTES);
    match (begin..text.len()).find(|at| text.is_char_boundary(*at)) {
        Some(at) if at > 0 => format!("…{}", &text[at..]),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_named() {
        for (code, text) in [
            (1, "exit code 1"),
            (128, "exit code 128"),
            (
                137,
                "exit code 137: a command in it was ended by signal 9 (SIGKILL; by the kernel",
            ),
            (
                143,
                "exit code 143: a command in it was ended by signal 15 (SIGTERM)",
            ),
            (255, "exit code 255"),
        ] {
            assert!(exit_code(code).starts_with(text), "{}", exit_code(code));
        }
        assert_eq!(signal(11), "signal 11 (SIGSEGV)");
        assert_eq!(signal(64), "signal 64");
    }

    #[test]
    fn the_last_lines_are_in_the_error() {
        assert_eq!(last_lines(""), "");
        assert_eq!(last_lines("a\n\n b\nc\nd \n\n"), "b\nc\nd");
        let long = last_lines(&"ü".repeat(1000));
        assert!(
            long.starts_with('…') && long.len() <= LAST_BYTES + 4,
            "{long}"
        );
    }
}
