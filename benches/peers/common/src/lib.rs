//! The jobs of the programs that `cargo xtask bench peers` measures side by side (`benches/peers/README.md`).
//!
//! A program implements [`Peer`] for one system and calls [`main`], which runs the job of its command line.
//!
//! | module | what |
//! |---|---|
//! | [`job`] | the command line |
//! | [`peer`] | what a system has to do |
//! | [`flow`] | the jobs `submit` and `drain` |
//! | [`meter`] | time, processor time and memory of this process |
//! | [`payload`] | the text that a task carries |
//! | [`facts`] | what was read back, as text |

pub mod facts;
pub mod flow;
pub mod job;
pub mod meter;
pub mod payload;
pub mod peer;

pub use facts::synchronous;
pub use job::Job;
pub use payload::Payload;
pub use peer::{Peer, Ran};

/// Any error.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Runs the job of the command line and prints its figures as one line of JSON.
pub fn main<P: Peer>() -> std::process::ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => return failed(&e.into()),
    };
    match runtime.block_on(run::<P>()) {
        Ok(figures) => {
            println!("{figures}");
            std::process::ExitCode::SUCCESS
        }
        Err(e) => failed(&e),
    }
}

async fn run<P: Peer>() -> Result<serde_json::Value, Error> {
    let job = Job::parse(std::env::args().skip(1))?;
    match job.name.as_str() {
        "submit" => flow::submit::<P>(&job).await,
        "drain" => flow::drain::<P>(&job).await,
        other => {
            Err(format!("could not run job '{other}': this program has submit and drain").into())
        }
    }
}

fn failed(error: &Error) -> std::process::ExitCode {
    eprintln!("error: {error}");
    std::process::ExitCode::FAILURE
}
