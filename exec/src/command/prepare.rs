//! A command before its start: the program, the pipes and the variables.

use std::{path::Path, process::Stdio};

use tokio::process::Command;
use windlass::{Json, TaskContext};

use super::{environment, folder::Folder, props::Props, tagged, waited};

/// Returns the command without its own variables. `found` is the path of the program, if it is
/// known.
pub(super) fn prepare(props: &Props, found: Option<&Path>) -> Command {
    let mut command = match found {
        Some(path) => Command::new(path),
        None => Command::new(&props.program),
    };
    if found.is_some() {
        command.arg0(&props.program);
    }
    for name in environment::own_variables() {
        command.env_remove(name);
    }
    command
        .args(&props.args)
        .stdin(if props.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = &props.cwd {
        command.current_dir(cwd);
    }
    command
}

/// Sets the variables that say which attempt of which task it is.
pub(super) fn name_attempt(command: &mut Command, task: &TaskContext, folder: &Folder) {
    command
        .env("WINDLASS_TASK_ID", task.id().as_str())
        .env("WINDLASS_ATTEMPT", task.attempt().to_string())
        .env("WINDLASS_INCARNATION", task.incarnation().to_string())
        .env(tagged::FENCE, task.fence().to_string())
        .env(tagged::STATE_DIR, &folder.path);
    if let Some(time) = task.scheduled_for() {
        command.env("WINDLASS_SCHEDULED_FOR", time.nominal.to_string());
    }
    if !task.meta().is_empty() {
        command.env(
            "WINDLASS_META",
            Json::from(serde_json::json!(task.meta())).as_str(),
        );
    }
    if let Some(trace) = task.trace() {
        let [parent, state] = environment::TRACE;
        command.env(parent, trace.parent());
        if let Some(value) = trace.state() {
            command.env(state, value);
        }
    }
    if let Some(waited) = waited::json(task) {
        command.env("WINDLASS_WAITED", waited);
    }
}
