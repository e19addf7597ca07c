//! `windlass graph`: the tasks around one task that wait for each other.

mod draw;

use clap::ValueEnum;
use windlass::{TaskId, client::Graph, store::TaskRecord, wire::GraphForm};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
};

/// Which tasks, and how they are drawn.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windlass graph report
  windlass graph report --format dot | dot -Tsvg > report.svg
  windlass graph report --format json | jq -r '.tasks[] | select(.state == \"failed\") | .id'")]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID")]
    id: TaskId,

    /// How to draw the graph
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// Stop after N tasks: 1 to 100000
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A tree in each direction
    Text,
    /// The language of Graphviz
    Dot,
    /// One object with tasks and edges
    Json,
}

/// Draws it.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let out = global.out();
    client.get(&args.id).await?;
    let edges = Graph::read(&client, |_| true).await?;
    let around = edges.around(&args.id, args.limit as usize);
    if around.is_cut {
        out.note(format!(
            "note: the graph has more than {} tasks; --limit shows more",
            args.limit
        ));
    }
    let format = match out.is_json() {
        true => Format::Json,
        false => args.format,
    };
    match format {
        Format::Json => out.json(&GraphForm::new(&edges, &around))?,
        Format::Dot => out.line(draw::dot(&edges, &around))?,
        Format::Text => draw::text(&edges, &around, &args.id, |line| out.line(line))?,
    }
    Ok(Exit::Ok)
}

/// Prints all of these tasks as trees: below each task, the tasks that wait for it.
pub(crate) fn forest(records: &[TaskRecord], out: &Output) -> Result<(), Failure> {
    let edges = Graph::of(records);
    let tasks: Vec<&TaskId> = records.iter().map(|record| &record.task.id).collect();
    draw::forest(&edges, &tasks, |line| out.line(line))
}
