//! The client under test of `windlass worker-check`, as a program: its handlers do what the props say
//! (docs/reference/worker-check.md).
#![allow(clippy::print_stderr, reason = "a command-line program")]

use std::{
    collections::BTreeMap,
    env,
    fs::OpenOptions,
    io::Write,
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use windlass::workers::protocol::{Offer, Start};

use crate::{BoxError, Ctl, Faults, Setup, Worker};

/// Runs the program with the arguments of this process, which are the names of its faults.
pub fn main() -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<(), BoxError> {
    let faults = env::args().skip(1).map(|name| name.parse());
    let faults: Faults = faults.collect::<Result<_, String>>()?;
    let pid = std::process::id();
    let mut offer = Offer::new(10);
    offer.signals = true;
    let setup = Setup {
        url: env::var("WINDLASS_URL")?,
        token: env::var("WINDLASS_TOKEN")?,
        name: format!("check-{pid}"),
        secret: format!("secret-of-the-test-client-{pid}"),
        kinds: BTreeMap::from([("check".parse()?, offer)]),
        ttl: None,
        faults,
    };
    Worker::new(setup, Arc::new(handle)).run()
}

/// Does what the props say.
fn handle(start: &Start, ctl: &Ctl) -> Value {
    let props: Value = match start.props.get("props") {
        Ok(props) => props,
        Err(why) => return json!({"message": "error", "error": why.to_string()}),
    };
    let trace = props["trace"].as_str();
    note(trace, "start");
    match props["do"].as_str() {
        Some("error") => return json!({"message": "error", "error": "the props ask for an error"}),
        Some("run") if start.data.is_none() => {
            return json!({"message": "run", "data": {"runs": 1}});
        }
        Some("checkpoint") => {
            if let Err(why) = ctl.checkpoint(&props) {
                return json!({"message": "error", "error": why});
            }
        }
        Some("sleep") => {
            let millis = props["sleep_ms"].as_u64().unwrap_or(0);
            let end = Instant::now() + Duration::from_millis(millis);
            while Instant::now() < end {
                if ctl.stopped() && (ctl.aborted() || props["stubborn"] != json!(true)) {
                    return json!({"message": "release"});
                }
                note(trace, "beat");
                thread::sleep(Duration::from_millis(50));
            }
        }
        _ => {}
    }
    json!({"message": "complete", "result": props})
}

/// Appends a line to the file of the task.
fn note(trace: Option<&str>, line: &str) {
    let Some(path) = trace else {
        return;
    };
    let file = OpenOptions::new().append(true).create(true).open(path);
    // A check that misses a line says so.
    let _ = file.and_then(|mut file| writeln!(file, "{line}"));
}
