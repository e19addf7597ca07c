//! `windlass worker-check`: holds a client of the protocol of remote workers to its rules.

mod catalog;
mod every_request;
mod http;
mod long_number;
mod outages;
mod refusals;
mod replaced;
mod rules;
mod scenarios;
mod script;
mod stand_in_store;
mod task;
mod unreadable;

use std::net::SocketAddr;

use comfy_table::Cell;
use futures::{StreamExt, stream};
use serde::Serialize;

use self::script::{Scenario, Setup};
use crate::{
    exit::{Exit, Failure},
    global::Global,
};

const EXAMPLES: &str = "\
The check starts COMMAND once for each scenario, beside stand-in servers of its own: no store is needed.
They answer late, twice or not at all, end, take claims away, stop handlers and refuse requests. The
scenarios run at once and take about 20s; with a port in URL they run one after the other.

COMMAND is a worker with a handler of the kind 'check'. It reads the address of its first server from
WINDLASS_URL and the token from WINDLASS_TOKEN. Its handler does what the props say, and completes with
its props as the result (docs/reference/worker-check.md has the whole contract):
  {\"do\":\"complete\"}                 completes
  {\"do\":\"checkpoint\"}               stores its props as data, then completes
  {\"do\":\"run\"}                      returns run with data; completes when it has data
  {\"do\":\"error\"}                    returns an error
  {\"do\":\"sleep\",\"sleep_ms\":N}       completes after N ms; returns release when it is asked to stop,
                                   unless the props have \"stubborn\":true
If the props have \"trace\", it appends the line 'start' to that file when it starts, and the line 'beat'
at least every 100 ms while it sleeps.

The exit code is 1 if the client has broken a rule.

Examples:
  windlass worker-check -- python3 worker.py
  windlass worker-check --scenario silence --scenario stops -- ./worker
  windlass worker-check http://127.0.0.1:7777 -- ./worker
  windlass worker-check -o json -- ./worker | jq -r 'select(.verdict == \"broken\") | .rule'";

/// What to check.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Listen on this address; port 0 is any free one
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:0", value_parser = address)]
    url: SocketAddr,

    /// Send tasks of this kind
    #[arg(long, default_value = "check")]
    kind: windlass::Kind,

    /// Run only this scenario; may be repeated
    #[arg(long, value_name = "NAME", value_parser = scenario)]
    scenario: Vec<Scenario>,

    /// How many scenarios run at once, if the port of the address is 0. On a machine that is busy, use 1
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,

    /// The client under test, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Reads an address such as `http://127.0.0.1:0`.
fn address(text: &str) -> Result<SocketAddr, String> {
    let authority = text.strip_prefix("http://").unwrap_or(text);
    let address = authority.trim_end_matches('/').parse();
    address.map_err(|_| {
        "give an IP address of this machine and a port, such as http://127.0.0.1:0".to_owned()
    })
}

fn scenario(text: &str) -> Result<Scenario, String> {
    let found = catalog::ALL.into_iter().find(|s| s.name == text);
    found.ok_or_else(|| {
        let names: Vec<_> = catalog::ALL.iter().map(|s| s.name).collect();
        format!("'{text}' is no scenario; give one of {}", names.join(", "))
    })
}

/// The result of one scenario, or one broken rule of it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "CheckedWorker"))]
pub(crate) struct Line<'a> {
    /// The scenario.
    scenario: &'a str,
    /// `ok` or `broken`.
    verdict: &'a str,
    /// The name of the rule that is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    /// What the rule asks of a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    asks: Option<&'a str>,
    /// What the client has done, or has not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    finding: Option<&'a str>,
}

/// Checks the client.
///
/// # Errors
///
/// When a stand-in server or the client does not start.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let setup = Setup {
        listen: args.url,
        kind: args.kind.to_string(),
        command: args.command,
    };
    let scenarios = match args.scenario.is_empty() {
        true => catalog::ALL.to_vec(),
        false => args.scenario,
    };
    let jobs = match setup.listen.port() {
        0 => args.jobs.into(),
        // One server has the port at a time.
        _ => 1,
    };
    let runs = scenarios
        .iter()
        .map(|scenario| script::run(*scenario, &setup));
    let runs: Vec<_> = runs.collect();
    let results: Vec<_> = stream::iter(runs).buffered(jobs).collect().await;
    let mut lines = Vec::new();
    for (scenario, broken) in scenarios.iter().zip(results) {
        lines.push((scenario, broken?));
    }
    print(&lines, global)?;
    let is_good = lines.iter().all(|(_, broken)| broken.is_empty());
    Ok(if is_good { Exit::Ok } else { Exit::No })
}

fn print(
    lines: &[(&Scenario, Vec<stand_in_store::Broken>)],
    global: &Global,
) -> Result<(), Failure> {
    let mut all = Vec::new();
    for (scenario, broken) in lines {
        if broken.is_empty() {
            all.push(Line {
                scenario: scenario.name,
                verdict: "ok",
                rule: None,
                asks: None,
                finding: None,
            });
        }
        all.extend(broken.iter().map(|broken| Line {
            scenario: scenario.name,
            verdict: "broken",
            rule: Some(broken.rule.0),
            asks: Some(broken.rule.1),
            finding: Some(&broken.text),
        }));
    }
    let output = global.out();
    if output.is_json() {
        return all.iter().try_for_each(|line| output.json(line));
    }
    let cell = |text: Option<&str>| Cell::new(text.unwrap_or_default());
    let rows = all.iter().map(|line| {
        let (scenario, verdict) = (Some(line.scenario), Some(line.verdict));
        [scenario, verdict, line.rule, line.finding]
            .map(cell)
            .to_vec()
    });
    output.table(&["SCENARIO", "VERDICT", "RULE", "FINDING"], rows.collect())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{catalog, rules};

    #[test]
    fn the_page_lists_every_scenario_and_every_rule() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/worker-check.md");
        let page = fs::read_to_string(page).unwrap();
        for scenario in catalog::ALL {
            assert!(
                page.contains(&format!("| `{}` |", scenario.name)),
                "{}",
                scenario.name
            );
        }
        for (name, asks) in rules::ALL {
            assert!(
                page.contains(&format!("| `{name}` | {asks} |")),
                "{name}: {asks}"
            );
        }
    }
}
