//! `windlass top`: a page of what the tasks do now: rates, lateness, failing kinds, why tasks wait, and nodes.

mod data;
mod lines;
mod page;
mod screen;
mod text;

use std::{io::IsTerminal, path::PathBuf, time::Duration};

use tokio::time::sleep;

pub(crate) use self::data::Data;
use self::{data::Source, lines::Sort};
use crate::{
    exit::{Exit, Failure},
    global::Global,
    http::{self, Server},
    parse::duration,
};

/// What to show.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The rates and the lateness of a store are counted from the start of this command; those of a server from the first request for
them, for at most an hour. The lateness of a start is the time from when the task could be claimed until a node claimed it.
The server's token needs the role read and no scope.

Keys: q quits, p pauses the updates, s sorts by number or by name, the arrow keys, PgUp, PgDn, Home and End scroll.
Without a terminal, with --once or -o json it prints one page.

Examples:
  windlass top
  windlass top --once --every 10s
  windlass top -o json | jq '.activity.windows[] | {name, per_second}'
  windlass top --server unix:run/windlass.sock
  windlass top --server http://localhost:7474 --token-file token")]
pub(crate) struct Args {
    /// Show the namespace of a server: unix:PATH, or http://HOST:PORT with the token in WINDLASS_TOKEN or --token-file
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// A file with the token for the server, instead of the variable WINDLASS_TOKEN
    #[arg(long, value_name = "PATH", requires = "server")]
    token_file: Option<PathBuf>,

    /// Read the numbers this often; the one page of --once counts for this time
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = every)]
    every: Duration,

    /// Print one page and end
    #[arg(long)]
    once: bool,
}

fn every(text: &str) -> Result<Duration, String> {
    let every = duration(text)?;
    match every < Duration::from_millis(100) || every > Duration::from_secs(3600) {
        true => Err("give 100ms to 1h".to_owned()),
        false => Ok(every),
    }
}

/// Shows the page until it is left, or prints it once.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let out = global.out();
    let (mut source, name) = match &args.server {
        Some(_) if global.is_store_typed => {
            let text = "--store: the page is that of a store or of a server; leave out --store or --server";
            return Err(Failure::Usage(text.to_owned()));
        }
        Some(url) => {
            let token = http::token(args.token_file.as_deref())?;
            (Source::Server(Server::new(url, token)?), url.clone())
        }
        None => {
            let name = windlass::store::without_password(&global.store_url()?);
            let client = global.reading().await?;
            (Source::of_store(client, global.hint()).await?, name)
        }
    };
    let first = source.read().await?;
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let has_terminal =
        std::io::stdout().is_terminal() && std::io::stdin().is_terminal() && !is_dumb;
    if has_terminal && !args.once && !out.is_json() {
        let colors = global.colors(true);
        return screen::show(
            source,
            first,
            screen::Settings {
                name,
                every: args.every,
                colors,
            },
        )
        .await;
    }
    let data = counted(&mut source, first, args.every).await?;
    if out.is_json() {
        out.json(&data)?;
        return Ok(Exit::Ok);
    }
    let colors = global.colors(std::io::stdout().is_terminal());
    for line in lines::all(&data, (&name, Sort::Number), lines::WIDTH) {
        out.line(text::printed(&line, colors))?;
    }
    Ok(Exit::Ok)
}

/// Returns data that were counted for at least this time.
async fn counted(source: &mut Source, first: Data, every: Duration) -> Result<Data, Failure> {
    let counts = first.activity.at.duration_since(first.activity.since);
    let counts = Duration::try_from(counts).unwrap_or_default();
    if counts >= every {
        return Ok(first);
    }
    sleep(every - counts).await;
    source.read().await
}
