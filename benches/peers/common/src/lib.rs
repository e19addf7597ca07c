//! The jobs of the programs that `cargo xtask bench peers` measures side by side (`benches/peers/README.md`).
//!
//! A program implements [`Peer`] for one system and calls [`main`], which runs the job of its command line.
//!
//! | module | what |
//! |---|---|
//! | [`job`] | the command line |
//! | [`peer`] | what a system has to do |
//! | [`flow`] | the jobs `submit` and `drain` |
//! | [`kills`] | the job `kills` |
//! | [`lateness`] | the job `lateness` |
//! | [`sleepers`] | the jobs `later` and `sleepers` |
//! | [`meter`] | time, processor time and memory of this process |
//! | [`payload`] | the text that a task carries |
//! | [`facts`] | what was read back, as text |

use std::{future::Future, process::ExitCode};

use serde_json::Value;
use tokio::runtime::Builder;

pub mod facts;
pub mod flow;
pub mod job;
pub mod kills;
pub mod lateness;
pub mod meter;
pub mod payload;
pub mod peer;
pub mod sleepers;

pub use facts::synchronous;
pub use job::Job;
pub use payload::Payload;
pub use peer::{Peer, Ran};

/// Any error.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Runs the job of the command line and prints its figures as one line of JSON.
pub fn main<P: Peer>() -> ExitCode {
    run(async {
        let job = Job::parse(std::env::args().skip(1))?;
        match job.name.as_str() {
            "submit" => flow::submit::<P>(&job).await,
            "drain" => flow::drain::<P>(&job).await,
            "kills" => kills::kills::<P>(&job).await,
            "lateness" => lateness::lateness::<P>(&job).await,
            "later" => sleepers::later::<P>(&job).await,
            "sleepers" => sleepers::sleepers::<P>(&job).await,
            other => {
                let jobs = "submit, drain, kills, lateness, later and sleepers";
                Err(format!("could not run job '{other}': the jobs are {jobs}").into())
            }
        }
    })
}

/// Prints the figures that a job returns as one line of JSON, or its error.
pub fn run(job: impl Future<Output = Result<Value, Error>>) -> ExitCode {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let figures = match runtime {
        Ok(runtime) => {
            let figures = runtime.block_on(job);
            // A handler that does not yield keeps its thread: the process ends without it.
            runtime.shutdown_background();
            figures
        }
        Err(e) => Err(e.into()),
    };
    match figures {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
