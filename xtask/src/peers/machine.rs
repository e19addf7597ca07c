//! Transitions, starts and commands of windlass and one peer on one etcd, in alternating rounds.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use windlass_etcd_cluster::{Cluster, cluster::Setup};

use super::{
    Left,
    build::Programs,
    catalog::Contender,
    options::Options,
    program::{Figures, Job, figures},
    report::{Report, Row},
    rounds::{Pair, order},
};
use crate::{root, tools};

/// How many tasks are in flight.
const IN_FLIGHT: [usize; 4] = [1, 10, 100, 1000];

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

/// One contender beside windlass.
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) folder: &'a Path,
    pub(super) contender: &'static Contender,
    pub(super) programs: &'a mut Programs,
}

impl Run<'_> {
    pub(super) fn measure(mut self, report: &mut Report) -> Left<()> {
        let steps = steps();
        let mut values: BTreeMap<(usize, usize), Pair> = BTreeMap::new();
        for round in 0..self.options.rounds {
            for (number, step) in steps.iter().enumerate() {
                // Each step starts with an empty history.
                let etcd = self.etcd()?;
                for at in order(round) {
                    let namespace = format!("{round}-{number}-{at}");
                    let figures = self.figures(step, at, &etcd.url(&namespace))?;
                    let both = figures
                        .percentiles
                        .unwrap_or([figures.per_second(), figures.micros()]);
                    for (row, value) in both.into_iter().enumerate() {
                        values.entry((number, row)).or_default()[at].push(value);
                    }
                }
                let folder = etcd.folder().to_owned();
                drop(etcd);
                fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
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

    /// Runs a step: of windlass (0), or of the peer (1).
    fn figures(&mut self, step: &Step, at: usize, store: &str) -> Left<Figures> {
        let program = [self.contender.jobs.windlass(), self.contender.program][at];
        let (count, limit) = if self.options.quick {
            (50, 1)
        } else {
            (300, 3)
        };
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
        figures(Command::new(executable).args(job.arguments()), limit).map_err(|why| {
            let Step {
                job,
                setting,
                slots,
                ..
            } = step;
            format!("{job} {setting} with {slots} in flight: {program}: {why}")
        })
    }

    /// One member on the disk of the other files, with the options that docs/operations-etcd.md advises.
    fn etcd(&self) -> Left<Cluster> {
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
        assert_eq!(steps.len(), 2 * IN_FLIGHT.len() + 2);
    }
}
