//! A task of the kind `exec` that completed on its own has run: a command of the claim that
//! completed it started, stored the last step, and its output is what the command printed.

use serde::Deserialize;
use windlass::{TaskStatus, store::ChangeKind};

use super::Found;
use crate::{
    exec_lines::ExecSaid,
    world::{Subject, World},
};

/// What the result of a command has of it.
#[derive(Debug, Deserialize)]
struct Output {
    exit_code: Option<i32>,
    stdout: String,
}

/// What a command was to do.
#[derive(Debug, Deserialize)]
struct Props {
    env: Env,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct Env {
    total: String,
}

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for (id, subject) in &world.subjects {
        if subject.record.task.kind.as_str() == "exec"
            && let Err(how) = of(world, subject)
        {
            found.push((id.clone(), how));
        }
    }
    found
}

fn of(world: &World, subject: &Subject) -> Result<(), String> {
    // A command to complete brings no result.
    let Ok(TaskStatus::Completed {
        result: Some(result),
    }) = subject.record.state.as_ref().map(|s| &s.status)
    else {
        return Ok(());
    };
    let output: Output = result.get("result").map_err(|e| e.to_string())?;
    let props: Props = (subject.record.task.props.get("props")).map_err(|e| e.to_string())?;
    let Some(ChangeKind::Moved { fence, .. }) = subject.last_move() else {
        return Err("it completed without a transition".to_owned());
    };
    let lines = world.exec.iter().filter(|l| l.task == *subject.id());
    let said: Vec<ExecSaid> = (lines.filter(|l| l.fence == *fence))
        .map(|l| l.said)
        .collect();
    let start = said.iter().rposition(|s| matches!(s, ExecSaid::Start(_)));
    let Some(start) = start else {
        return Err(format!("it completed; no command of claim {fence} started"));
    };
    // A command that meets another one says so first.
    let met = start > 0 && matches!(said[start - 1], ExecSaid::Overlap(_));
    let said = &said[start - usize::from(met)..];
    let reached = said.iter().rev().find_map(|s| match s {
        ExecSaid::Start(n) | ExecSaid::Step(n) => Some(n.to_string()),
        ExecSaid::Overlap(_) => None,
    });
    if reached.as_ref() != Some(&props.env.total) {
        let total = props.env.total;
        return Err(format!(
            "it completed; its command had stored {reached:?} of {total}"
        ));
    }
    let printed: String = said.iter().map(|s| format!("{s}\n")).collect();
    if output.stdout != printed || output.exit_code != Some(0) {
        return Err(format!(
            "its result is {output:?}; its command printed {printed:?} and succeeded"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass::Json;

    use super::super::sample::*;
    use super::*;
    use crate::exec_lines::ExecLine;

    /// A command of two steps that has completed by claim 2, with this output.
    fn completed_with(stdout: &str, exit_code: i32) -> World {
        let mut task = subject(vec![submitted(), claimed("a", 2), completed(2)]);
        task.record.task.kind = "exec".parse().unwrap();
        let props = json!({"shell": "…", "env": {"TOTAL": "2", "FAILS": "0"}});
        task.record.task.props = Json::new("props", &props).unwrap();
        let result = json!({"exit_code": exit_code, "stdout": stdout, "stderr": ""});
        let result = Some(Json::new("result", &result).unwrap());
        task.record.state.as_mut().unwrap().status = TaskStatus::Completed { result };
        world(task)
    }

    fn ran(mut world: World, said: &[(u64, ExecSaid)]) -> Found {
        let lines = said.iter().map(|(number, said)| ExecLine {
            at: 0,
            task: id(),
            fence: fence(*number),
            said: *said,
        });
        world.exec = lines.collect();
        check(&world)
    }

    #[test]
    fn a_command_that_ran_and_whose_output_is_the_result_holds() {
        let said = [
            (1, ExecSaid::Start(0)),
            (1, ExecSaid::Step(1)),
            (2, ExecSaid::Start(1)),
            (2, ExecSaid::Step(2)),
        ];
        holds(ran(completed_with("start 1\nstep 2\n", 0), &said));
        // A first attempt of the same claim that failed.
        let again = [
            (2, ExecSaid::Start(0)),
            (2, ExecSaid::Start(0)),
            (2, ExecSaid::Step(1)),
            (2, ExecSaid::Step(2)),
        ];
        holds(ran(completed_with("start 0\nstep 1\nstep 2\n", 0), &again));
    }

    #[test]
    fn a_completion_without_a_run_is_caught() {
        let found = ran(completed_with("start 1\nstep 2\n", 0), &[]);
        caught(found, "no command of claim 2 started");
        let earlier = [(1, ExecSaid::Start(0)), (1, ExecSaid::Step(2))];
        let found = ran(completed_with("start 0\nstep 2\n", 0), &earlier);
        caught(found, "no command of claim 2 started");
    }

    #[test]
    fn a_completion_before_the_last_step_is_caught() {
        let said = [(2, ExecSaid::Start(0)), (2, ExecSaid::Step(1))];
        let found = ran(completed_with("start 0\nstep 1\n", 0), &said);
        caught(found, "its command had stored Some(\"1\") of 2");
    }

    #[test]
    fn a_result_that_the_command_did_not_print_is_caught() {
        let said = [(2, ExecSaid::Start(1)), (2, ExecSaid::Step(2))];
        let differs = "its command printed";
        caught(ran(completed_with("start 1\n", 0), &said), differs);
        caught(ran(completed_with("start 1\nstep 2\n", 3), &said), differs);
    }
}
