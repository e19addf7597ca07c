//! `windlass doctor`: checks the store's health.

use comfy_table::Color;
use serde::Serialize;
use windlass::{
    Fence,
    store::examine::{Examination, Finding, Verdict},
};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    hint::Hint,
    remedy::{command, with_command},
    view::text,
};

/// What to check and to repair.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The verdict of each check is ok, warning, error, or unknown (the check could not be made), with what to
do. The exit code is 1 if there is an error (with --strict: or a warning).

Examples:
  windlass doctor
  windlass doctor --repair
  windlass doctor --full
  windlass doctor --strict -o json | jq -r 'select(.verdict != \"ok\") | .check'")]
pub(crate) struct Args {
    /// Repair what can be repaired safely: delete records that belong to no task, end claims of
    /// lost nodes, write the log back into the file. Claimed and unreadable tasks stay as they are
    #[arg(long)]
    repair: bool,

    /// Check the file of a SQLite store in full: compare each index with its table (takes as long as
    /// reading the file)
    #[arg(long)]
    full: bool,

    /// Compact the history of etcd up to now; other users of that etcd lose the history too
    #[arg(long)]
    compact: bool,

    /// Let nodes start again after etcd was restored to an earlier state: raise the fences above every fence that a
    /// node had seen, and above ABOVE, if given. Refused while a node is live, unless no fence has to be raised
    #[arg(long, value_name = "ABOVE", num_args = 0..=1, default_missing_value = "0",
        value_parser = clap::value_parser!(u64).range(..=Fence::MOST.0))]
    raise_fences: Option<u64>,

    /// The --quota-backend-bytes of the members of etcd, if the members do not report it (2GiB,
    /// 8GiB)
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    quota: Option<u64>,

    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
}

/// The finding of one check, with the command for the step of its advice.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Finding"))]
pub(crate) struct Line<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    /// The command that takes the step of the advice, as a line for a shell; absent where one command does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

impl<'a> Line<'a> {
    fn of(finding: &'a Finding, hint: &Hint) -> Self {
        let command = finding.remedy.and_then(command);
        let command = command.map(|words| hint.command(words));
        Self { finding, command }
    }
}

/// Reads a number of bytes such as 8GiB.
fn bytes(input: &str) -> Result<u64, String> {
    let like =
        || format!("'{input}' is not a number of bytes; write it like 8GiB, 512MiB or 2147483648");
    let digits = input.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().map_err(|_| like())?;
    let unit = match &input[digits.len()..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(like()),
    };
    let bytes = number.checked_mul(unit).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(like)
}

/// Examines the store.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let (out, hint) = (global.out(), global.hint());
    let client = match global.reading().await {
        Ok(client) => client,
        Err(failure) => {
            // The JSON output includes it.
            if out.is_json() {
                let found = failure.to_string();
                let advice = "the store cannot be opened: nothing else was looked at";
                let finding = Finding::new("reachable", Verdict::Error, found, advice);
                out.json(&Line::of(&finding, &hint))?;
            }
            return Err(failure);
        }
    };
    let mut how = Examination::default();
    how.repair = args.repair;
    how.full = args.full;
    how.compact = args.compact;
    how.raise_fences = args.raise_fences;
    how.quota = args.quota;
    let findings = client.examine(&how).await?;
    let worst = findings.iter().map(|finding| finding.verdict).max();
    let bad = match worst {
        Some(Verdict::Error) => true,
        Some(Verdict::Warning) => args.strict,
        _ => false,
    };
    if out.is_json() {
        for finding in &findings {
            out.json(&Line::of(finding, &hint))?;
        }
        return Ok(if bad { Exit::No } else { Exit::Ok });
    }
    // Unless something is wrong with the tables, which the findings report.
    let is_empty = client.counts().await.is_ok_and(|counts| counts.is_empty());
    if is_empty && client.nodes().await.is_ok_and(|nodes| nodes.is_empty()) {
        out.note("there are no tasks and no nodes here: is this the right store?");
    }
    out.table(
        &["CHECK", "VERDICT", "FOUND"],
        findings.iter().map(row).collect(),
    )?;
    let advice = findings.iter().filter(|finding| !finding.advice.is_empty());
    for finding in advice {
        let advice = with_command(finding.advice, finding.remedy);
        out.line(format!("{}: {advice}", finding.check))?;
    }
    Ok(if bad { Exit::No } else { Exit::Ok })
}

fn row(finding: &Finding) -> Vec<comfy_table::Cell> {
    let (word, color) = match finding.verdict {
        Verdict::Ok => ("ok", Color::Green),
        Verdict::Unknown => ("unknown", Color::Grey),
        Verdict::Warning => ("warning", Color::Yellow),
        Verdict::Error => ("error", Color::Red),
    };
    let found = match finding.repaired {
        0 => finding.found.clone(),
        _ => format!("{} (repaired)", finding.found),
    };
    vec![text(finding.check), text(word).fg(color), text(found)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes() {
        assert_eq!(bytes("8GiB"), Ok(8 << 30));
        assert_eq!(bytes("1024"), Ok(1024));
        for wrong in ["", "GiB", "8GB", "0", "-1", "99999999999GiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
