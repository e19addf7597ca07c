//! The options of `windlass schedule create` and `update`.

use serde_json::{Map, Value};
use windlass::TaskId;

use super::{
    field::ClearArgs,
    run_args::{RunArgs, set},
    spec_args::TimeArgs,
};
use crate::{exit::Failure, input};

/// A schedule and its fields.
#[derive(Debug, clap::Args)]
pub(super) struct CreateArgs {
    /// The schedule
    #[arg(value_name = "ID")]
    pub(super) id: TaskId,
    #[command(flatten)]
    pub(super) times: TimeArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// What the schedule is for, in one line: `schedule get` and `list` show it
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
    /// Print the schedule and its next times, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// A schedule that is created.
#[derive(Debug, clap::Args)]
pub(super) struct NewArgs {
    #[command(flatten)]
    pub(super) fields: CreateArgs,
    /// Create the schedule paused: it submits no run before `schedule resume`
    #[arg(long)]
    pub(super) paused: bool,
}

impl CreateArgs {
    /// Sets the fields that were given.
    pub(super) fn apply(&self, spec: &mut Map<String, Value>) -> Result<(), Failure> {
        self.times.apply(spec)?;
        set(spec, "description", self.description.clone());
        self.run.apply(spec)
    }
}

/// A schedule and the changes of its fields.
#[derive(Debug, clap::Args)]
pub(super) struct UpdateArgs {
    #[command(flatten)]
    pub(super) fields: CreateArgs,
    #[command(flatten)]
    pub(super) clear: ClearArgs,
}

impl UpdateArgs {
    /// Returns whether an option was given.
    pub(super) fn has_options(&self) -> bool {
        let CreateArgs {
            times,
            run,
            description,
            ..
        } = &self.fields;
        *times != TimeArgs::default()
            || *run != RunArgs::default()
            || description.is_some()
            || self.clear != ClearArgs::default()
    }

    /// Reads files and standard input once, because the fields may be set more than once.
    pub(super) fn load(&mut self) -> Result<(), Failure> {
        let CreateArgs { times, run, .. } = &mut self.fields;
        for (field, text) in [("spec", &mut times.spec), ("props", &mut run.props)] {
            if let Some(text) = text {
                *text = input::json(field, text)?.to_string();
            }
        }
        Ok(())
    }
}
