//! Which tasks are the work of a line.

use windlass::{Kind, Task};

/// Returns whether a task has the work of a line, which may be stored with the kind of older versions.
pub(super) fn is_same_work(line: &Task, task: &Task) -> bool {
    is_same_kind(&line.kind, &task.kind) && line.props.same_value(&task.props)
}

/// Returns whether both kinds are the same, or both are commands.
pub(super) fn is_same_kind(line: &Kind, kind: &Kind) -> bool {
    line == kind || line.is_command() && kind.is_command()
}

/// Returns whether a task has the kind with which an older version stored lines.
pub(super) fn is_of_older_version(task: &Task) -> bool {
    task.kind.as_str() == Kind::COMMAND
}

#[cfg(test)]
mod tests {
    use windlass::NewTask;

    use super::*;

    #[test]
    fn a_line_is_the_same_work_as_the_command_that_an_older_version_stored() {
        let task = |kind: &str, props: &str| {
            let task = NewTask::new(kind).props(&serde_json::json!({ "command": props }));
            task.build().unwrap().task
        };
        let line = task(Kind::RUN_LINE, "true");
        for (kind, props, same) in [
            ("exec", "true", true),
            ("exec/run", "true", true),
            ("exec", "false", false),
            ("report", "true", false),
        ] {
            assert_eq!(
                is_same_work(&line, &task(kind, props)),
                same,
                "{kind} {props}"
            );
        }
        let other = task("report", "true");
        assert!(!is_same_work(&other, &task("exec", "true")));
    }
}
