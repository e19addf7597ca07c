//! Translates remedies of the library into commands and options of this program.

use windlass::{TaskState, WaitOutcome, store::Remedy};

/// Returns the words of the command that takes the step, as it can be run: `None` if it takes more than one
/// command.
pub(crate) fn command(remedy: Remedy) -> Option<&'static str> {
    Some(match remedy {
        Remedy::Repair => "doctor --repair",
        Remedy::FullCheck => "doctor --full",
        Remedy::Compact => "doctor --compact",
        Remedy::RaiseFences => "doctor --raise-fences",
        Remedy::ReadQuarantined => "list --quarantined",
        Remedy::ListSchedules => "schedule list",
        _ => return None,
    })
}

/// Returns the commands or the option that take the step, for a sentence.
fn words(remedy: Remedy) -> Option<&'static str> {
    Some(match remedy {
        Remedy::Repair => "windlass doctor --repair",
        Remedy::FullCheck => "windlass doctor --full",
        Remedy::Compact => "windlass doctor --compact",
        Remedy::RaiseFences => "windlass doctor --raise-fences",
        Remedy::GiveQuota => "windlass doctor --quota BYTES",
        Remedy::ReadQuarantined => "windlass list --quarantined, windlass retry",
        Remedy::Export => "windlass export",
        Remedy::Copy => "windlass copy",
        Remedy::UseCopied => "--use-copied removes the mark",
        Remedy::Run => "windlass resume",
        Remedy::UpdateSchedule => "windlass schedule update",
        Remedy::ListSchedules => "windlass schedule list",
        _ => return None,
    })
}

/// Returns a text with the command that does what the text says.
pub(crate) fn with_command(text: &str, remedy: Option<Remedy>) -> String {
    match remedy.and_then(words) {
        Some(command) => format!("{text} ({command})"),
        None => text.to_owned(),
    }
}

/// Returns the last error of a task, with the command that retries a chain of tasks that did not run.
pub(crate) fn last_error(state: &TaskState) -> Option<String> {
    let error = &state.errors.last()?.error;
    let unmet = state.waits.as_ref().and_then(|waits| waits.unmet());
    let in_chain = |outcome| matches!(outcome, WaitOutcome::Failed | WaitOutcome::Killed);
    Some(match unmet.is_some_and(|one| in_chain(one.outcome)) {
        true => format!("{error} (windlass retry ID --with-dependents)"),
        false => error.clone(),
    })
}
