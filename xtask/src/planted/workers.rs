//! `cargo xtask mutants workers`: each rule of the remote workers is broken in one place at a time, and the test that is named with
//! it has to fail.

use std::process::{Command, Stdio};

use super::{Edit, SWITCH, edit, plant};
use crate::{root, tools};

/// A rule that is broken, and the test that has to fail.
struct Mutant {
    name: &'static str,
    edits: &'static [Edit],
    /// The test of `tests/stores/workers`, or after `conformance: ` one of `tests/stores/conformance.rs`.
    test: &'static str,
}

impl Mutant {
    /// Returns the module of the program `stores`, and the test in it.
    fn module_and_test(&self) -> (&'static str, &'static str) {
        let test = self.test.strip_prefix("conformance: ");
        test.map_or(("workers", self.test), |test| ("conformance", test))
    }
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "version-not-compared",
        edits: &[edit(
            "src/store/rules/commit.rs",
            1,
            "stored.version == self.follows",
            "true",
        )],
        test: "conformance: memory::fences::a_write_that_arrives_late_is_superseded",
    },
    Mutant {
        name: "speaker-not-compared",
        edits: &[edit(
            "src/store/rules/worker.rs",
            1,
            "speaker != stored",
            "false",
        )],
        test: "speakers::a_server_that_no_longer_speaks_claims_nothing",
    },
    Mutant {
        name: "released-by-time-alone",
        edits: &[edit(
            "src/workers/task.rs",
            2,
            "Reconciled::Fine",
            "Reconciled::Dropped",
        )],
        test: "servers::a_claim_whose_answer_is_lost_comes_again",
    },
    Mutant {
        name: "settled-not-compared",
        edits: &[edit("src/workers/task.rs", 1, "sent <= settled", "true")],
        test: "servers::a_claim_whose_answer_is_lost_comes_again",
    },
    Mutant {
        name: "lost-from-a-lagging-view",
        edits: &[edit(
            "src/workers/exchange.rs",
            1,
            "self.read_newer(service, worker, ids, request.seq).await?",
            "drop::<Vec<TaskId>>(ids)",
        )],
        test: "speakers::a_run_of_another_server_is_not_lost",
    },
    Mutant {
        name: "run-sent-twice",
        edits: &[edit(
            "src/workers/task/start.rs",
            1,
            "start.sent.is_none()",
            "true",
        )],
        test: "servers::a_claim_whose_answer_is_lost_comes_again",
    },
    Mutant {
        name: "report-applied-again",
        edits: &[
            edit("src/workers/report.rs", 1, "item.n <= last.n", "false"),
            edit(
                "src/workers/report.rs",
                1,
                "item.n != next",
                "item.n > next",
            ),
        ],
        test: "requests::an_earlier_report_is_not_applied_over_a_later_one",
    },
    Mutant {
        name: "took-ignored",
        edits: &[
            edit(
                "src/workers/report.rs",
                1,
                "Input::Took(item.took)",
                "Input::Took(0)",
            ),
            edit(
                "src/workers/exchange.rs",
                1,
                "Input::Took(held.took)",
                "Input::Took(0)",
            ),
        ],
        test: "runs::a_signal_that_was_taken_does_not_come_to_the_next_run",
    },
    Mutant {
        name: "claims-not-read-by-a-new-speaker",
        edits: &[edit(
            "src/workers/machines.rs",
            1,
            "self.hold(service, worker, claimed)",
            "drop(claimed)",
        )],
        test: "servers::another_server_sends_a_claim_whose_answer_was_lost",
    },
    Mutant {
        name: "stale-request-handled",
        edits: &[
            edit("src/workers/machines.rs", 1, "seq <= self.seq", "false"),
            edit(
                "src/workers/machines.rs",
                1,
                "seq <= record.speaker.seq",
                "false",
            ),
        ],
        test: "servers::an_older_request_is_stale",
    },
    Mutant {
        name: "late-renewal-writes-the-status",
        edits: &[edit(
            "src/store/memory/lease.rs",
            1,
            "rules::worker::check_speaker(lease, &one.speaker).is_ok()",
            "true",
        )],
        test: "conformance: memory::workers::a_status_is_that_of_the_speaker",
    },
    Mutant {
        name: "answered-command-carried-out-again",
        edits: &[edit(
            "src/workers/machines.rs",
            1,
            "service.pending_orders(worker.lease.id).await",
            "Ok(service.dispatcher().orders(worker.lease.id))",
        )],
        test: "speakers::an_answered_command_is_not_carried_out_by_the_next_server",
    },
];

/// Plants the mutants, or those of these names, and fails if the test of one does not.
pub(crate) fn workers(names: &[String]) -> Result<(), String> {
    let known = |name: &String| MUTANTS.iter().any(|mutant| mutant.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        return Err(format!("no planted mutant has the name '{unknown}'"));
    }
    let folder = root().join("target/mutants/workers");
    let (tree, target) = plant(&folder, all())?;
    let chosen = |mutant: &&Mutant| names.is_empty() || names.iter().any(|n| n == mutant.name);
    let test = |mutant: &Mutant, is_planted: bool| -> Result<bool, String> {
        let (module, test) = mutant.module_and_test();
        let mut command = Command::new("cargo");
        command
            .current_dir(&tree)
            .args(["test", "--workspace", "--all-features", "--test", "stores"])
            .args(["--", "--exact", &format!("{module}::{test}")])
            .env("CARGO_TARGET_DIR", &target)
            .env("PROTOC", tools::protoc(&root())?)
            .stderr(Stdio::null());
        if is_planted {
            command.env(SWITCH, mutant.name);
        }
        let output = command
            .output()
            .map_err(|e| format!("could not start cargo: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !text.contains("running 1 test") {
            return Err(format!("the test {} was not run: {text}", mutant.test));
        }
        Ok(output.status.success())
    };
    let mut missed = Vec::new();
    for mutant in MUTANTS.iter().filter(chosen) {
        if !test(mutant, false)? {
            return Err(format!("the test {} fails without a mutant", mutant.test));
        }
        let is_missed = test(mutant, true)?;
        let what = if is_missed { "MISSED" } else { "found" };
        println!("{what} {} by {}", mutant.name, mutant.test);
        if is_missed {
            missed.push(mutant.name);
        }
    }
    match missed[..] {
        [] => Ok(()),
        _ => Err(format!("missed: {}", missed.join(", "))),
    }
}

/// Returns the name and the edits of each mutant.
fn all() -> impl Iterator<Item = (&'static str, &'static [Edit])> {
    MUTANTS.iter().map(|mutant| (mutant.name, mutant.edits))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::planted::switched;

    #[test]
    fn every_expression_is_in_its_file_and_every_test_exists() {
        let texts = switched(&root(), all()).unwrap();
        for mutant in MUTANTS {
            let (module, test) = mutant.module_and_test();
            let mut parts = test.rsplit("::");
            let (test, file) = (parts.next().unwrap(), parts.next().unwrap());
            let folder = match module {
                "workers" => "tests/stores/workers",
                _ => "src/testing/conformance",
            };
            let text = fs::read_to_string(root().join(format!("{folder}/{file}.rs"))).unwrap();
            assert!(text.contains(&format!("fn {test}(")), "{}", mutant.test);
            let switch = format!("crate::is_planted(\"{}\")", mutant.name);
            let planted = texts.values().filter(|text| text.contains(&switch)).count();
            assert!(planted > 0, "{} is not planted", mutant.name);
        }
    }
}
