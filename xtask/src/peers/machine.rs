//! Transitions, starts and commands of windlass and one peer on one etcd, in alternating rounds.

use std::{collections::BTreeMap, fs, path::Path, process::Command, thread, time::Duration};

use windlass_etcd_cluster::{Cluster, cluster::Setup};

use super::{
    StepResult,
    build::Programs,
    catalog::Contender,
    options::Options,
    program::{Figures, Job, figures},
    report::{Report, Row},
    rounds::{Pair, order},
};
use crate::{root, tools};

/// How many tasks are in flight. Of 10,000 whose handlers return at once, Metafora had claimed 2,800 after seven minutes.
const IN_FLIGHT: [usize; 4] = [1, 10, 100, 1000];
/// At most how many tasks sleep on etcd: a peer may claim less than a hundred a second.
const SLEEPERS: usize = 10_000;
/// What is measured of them.
const RESIDENT: [&str; 4] = [
    "resident set of etcd for each sleeping task, B",
    "the same once other writes have replaced the raft log, B",
    "the same after a compaction and a restart, B",
    "the same after a defragmentation, too, B",
];
/// This many writes replace the entries of the raft log that etcd keeps in memory, the last 5,000 before its last
/// snapshot.
const OTHER_WRITES: usize = 11_000;
/// The number of half seconds without a smaller resident set after which it counts as steady.
const STEADY: usize = 6;
/// How much longer a job may take in which that many tasks are claimed, in seconds.
const CLAIMS: u64 = 600;

/// One job of a round, and the names of its rows.
#[derive(Debug, Clone, Copy)]
struct Step {
    job: &'static str,
    setting: &'static str,
    slots: usize,
    rows: [&'static str; 2],
}

/// The jobs of a round, in the order of the rows.
fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for (setting, rows) in [
        (
            "checkpoint",
            [
                "Checkpoint transitions a second",
                "processor time of a Checkpoint, µs",
            ],
        ),
        (
            "run",
            ["Run transitions a second", "processor time of a Run, µs"],
        ),
        (
            "sleep",
            ["Sleep until now a second", "processor time of a Sleep, µs"],
        ),
    ] {
        steps.extend(IN_FLIGHT.map(|slots| Step {
            job: "transitions",
            setting,
            slots,
            rows,
        }));
    }
    for (job, rows) in [
        (
            "starts",
            [
                "submit to start of the handler, p50 ms",
                "submit to start of the handler, p99 ms",
            ],
        ),
        (
            "pauses",
            [
                "pause to the handler, p50 ms",
                "pause to the handler, p99 ms",
            ],
        ),
    ] {
        steps.push(Step {
            job,
            setting: "",
            slots: 1,
            rows,
        });
    }
    steps
}

/// A comparison of one contender with windlass.
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) folder: &'a Path,
    pub(super) contender: &'static Contender,
    pub(super) programs: &'a mut Programs,
}

/// The resident set of the member once it has not shrunk for a while: a start leaves garbage of the log that it has read.
fn settled(etcd: &Cluster) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
    let mut least = etcd.resident(0)?;
    let mut steady = 0;
    while steady < STEADY {
        thread::sleep(Duration::from_millis(500));
        let now = etcd.resident(0)?;
        steady = if now < least { 0 } else { steady + 1 };
        least = least.min(now);
    }
    Ok(least as f64)
}

impl Run<'_> {
    pub(super) fn measure(&mut self, report: &mut Report) -> StepResult<()> {
        let steps = steps();
        let mut values: BTreeMap<(usize, usize), Pair> = BTreeMap::new();
        for round in 0..self.options.rounds {
            for (number, step) in steps.iter().enumerate() {
                // Each step starts with an empty history.
                let etcd = self.etcd()?;
                for at in order(round) {
                    let namespace = format!("{round}-{number}-{at}");
                    let figures = self.figures(step, at, 300, &etcd.url(&namespace))?;
                    let both = figures
                        .percentiles
                        .unwrap_or([figures.per_second(), figures.micros()]);
                    for (row, value) in both.into_iter().enumerate() {
                        values.entry((number, row)).or_default()[at].push(value);
                    }
                }
                end(etcd)?;
            }
        }
        for ((number, row), [windlass, other]) in values {
            report.row(Row {
                peer: self.contender.name,
                slots: steps[number].slots,
                measure: steps[number].rows[row],
                windlass,
                other,
            });
        }
        Ok(())
    }

    /// The memory of etcd with sleeping tasks. What a task adds is the difference to an etcd with one.
    pub(super) fn sleepers(&mut self, report: &mut Report) -> StepResult<()> {
        let count = self.options.sleepers.min(SLEEPERS);
        let step = Step {
            job: "sleepers",
            setting: "",
            slots: count,
            rows: [""; 2],
        };
        let mut values: [Pair; 4] = Default::default();
        for at in [0, 1] {
            let one = self.resident(&step, at, 1)?;
            let all = self.resident(&step, at, count)?;
            for (row, (one, all)) in one.into_iter().zip(all).enumerate() {
                values[row][at].push((all - one) / (count - 1).max(1) as f64);
            }
        }
        let measures = RESIDENT.into_iter().zip(values);
        report.rows(self.contender.name, count, measures);
        Ok(())
    }

    /// The resident set of an etcd with `count` sleeping tasks, for the rows [`RESIDENT`].
    fn resident(&mut self, step: &Step, at: usize, count: usize) -> StepResult<[f64; 4]> {
        let mut etcd = self.etcd()?;
        self.figures(step, at, count, &etcd.url("sleepers"))?;
        let resident = settled;
        let all = (|| {
            let before = resident(&etcd)?;
            let gateway = etcd.gateway(0);
            for _ in 0..OTHER_WRITES {
                gateway.put("other", b"x")?;
            }
            let later = resident(&etcd)?;
            gateway.compact(gateway.status()?.revision)?;
            etcd.terminate(0)?;
            etcd.restart(0)?;
            let compacted = resident(&etcd)?;
            etcd.gateway(0).defragment()?;
            etcd.terminate(0)?;
            etcd.restart(0)?;
            let all = [before, later, compacted, resident(&etcd)?];
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(all)
        })();
        let all = all.map_err(|e| format!("the memory of etcd: {e}"))?;
        end(etcd)?;
        Ok(all)
    }

    /// Runs a step: of windlass (0), or of the peer (1).
    fn figures(
        &mut self,
        step: &Step,
        at: usize,
        count: usize,
        store: &str,
    ) -> StepResult<Figures> {
        let program = [self.contender.jobs.windlass(), self.contender.program][at];
        let (count, limit) = match self.options.quick {
            true if step.job != "sleepers" => (50, 1),
            true => (count, 1),
            false => (count, 3),
        };
        let patience = if step.slots > 1000 { CLAIMS } else { 0 };
        let job = Job {
            name: step.job,
            dir: self.folder,
            store: Some(store),
            setting: step.setting,
            count,
            slots: step.slots,
            limit,
        };
        let executable = self.programs.get(program)?;
        let mut command = Command::new(executable);
        figures(command.args(job.arguments()), limit + patience).map_err(|why| {
            let Step {
                job,
                setting,
                slots,
                ..
            } = step;
            format!("{job} {setting} with {slots} in flight: {program}: {why}")
        })
    }

    /// One member on the disk of the other files, with the options that docs/operate/operations-etcd.md advises.
    fn etcd(&self) -> StepResult<Cluster> {
        let servers = tools::etcds(&root())?;
        let program = servers.first().ok_or("no etcd was found")?.clone();
        let arguments = [
            "--snapshot-count",
            "5000",
            "--quota-backend-bytes",
            "8000000000",
        ];
        let setup = Setup {
            program,
            arguments: arguments.map(String::from).into(),
            folder: Some(self.folder.join("etcd")),
            ..Setup::of(1)
        };
        fs::create_dir_all(self.folder.join("etcd")).map_err(|e| format!("etcd: {e}"))?;
        Cluster::start(setup).map_err(|e| e.to_string())
    }
}

/// Stops an etcd and removes its files.
fn end(etcd: Cluster) -> StepResult<()> {
    let folder = etcd.folder().to_owned();
    drop(etcd);
    fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_measured_once_for_each_number_in_flight() {
        let steps = steps();
        for (at, step) in steps.iter().enumerate() {
            let is_same = |other: &&Step| other.rows == step.rows && other.slots == step.slots;
            assert_eq!(steps[..at].iter().find(is_same).map(|s| s.rows), None);
        }
        assert_eq!(steps.len(), 3 * IN_FLIGHT.len() + 2);
    }
}
