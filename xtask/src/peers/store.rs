//! [`Store`]: the new store of one side, with the server that it needs, and the jobs on it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    StepResult,
    catalog::{Program, Serves},
    program::{Figures, Job, figures},
    server::Server,
    syncs::Tracer,
};

/// One of the two that are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side {
    pub(super) program: Program,
    pub(super) setting: &'static str,
    pub(super) serves: Option<Serves>,
}

/// A job without its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) name: &'static str,
    pub(super) count: usize,
    pub(super) slots: usize,
    pub(super) limit: u64,
}

/// Its server is killed and its folder removed when this is dropped.
pub(super) struct Store {
    side: Side,
    executable: PathBuf,
    folder: PathBuf,
    server: Option<Server>,
}

impl Store {
    pub(super) fn new(side: Side, executable: PathBuf, folder: PathBuf) -> StepResult<Self> {
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let start = |serves| Server::start(serves, &executable, &folder, side.setting);
        let server = side.serves.map(start);
        Ok(Self {
            server: server.transpose()?,
            side,
            executable,
            folder,
        })
    }

    fn arguments(&self, work: Work) -> Vec<String> {
        let job = Job {
            name: work.name,
            dir: &self.folder,
            store: self.server.as_ref().map(|server| server.address.as_str()),
            setting: self.side.setting,
            count: work.count,
            slots: work.slots,
            limit: work.limit,
        };
        job.arguments()
    }

    /// A command that runs a job.
    pub(super) fn command(&self, work: Work) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(self.arguments(work));
        command
    }

    /// Runs a job. The processor time is that of the program and of its server.
    pub(super) fn run(&self, work: Work) -> StepResult<Figures> {
        let used = || self.server.as_ref().map_or(0.0, Server::used);
        let before = used();
        let mut figures =
            figures(&mut self.command(work), work.limit).map_err(|why| self.failed(work, &why))?;
        figures.processor_seconds += used() - before;
        Ok(figures)
    }

    /// Runs a job under `strace` and returns the number of calls that sync a file: those of the server, if there is one.
    pub(super) fn syncs(
        &self,
        work: Work,
        tracer: &Tracer,
        calls: &Path,
    ) -> StepResult<(Figures, usize)> {
        let attached = self
            .server
            .as_ref()
            .map(|server| tracer.attach(&server.processes(), calls));
        let attached = attached.transpose()?;
        let mut program = match &attached {
            Some(_) => self.command(work),
            None => {
                let mut traced = tracer.command(&self.executable, calls);
                traced.args(self.arguments(work));
                traced
            }
        };
        let figures = figures(&mut program, work.limit);
        if let Some(attached) = attached {
            tracer.detach(attached)?;
        }
        let figures = figures.map_err(|why| self.failed(work, &format!("under strace: {why}")))?;
        Ok((figures, tracer.count(calls)?))
    }

    pub(super) fn failed(&self, work: Work, why: &str) -> String {
        let Work { name, slots, .. } = work;
        format!("{name} with {slots} at once: {}: {why}", self.side.program)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.server.take());
        // The folder of the run is removed at the end in any case.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
