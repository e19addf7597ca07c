//! `windlass mask`: the values of tasks that servers show to nobody.

use clap::Subcommand;
use windlass::Client;
use windlass_server::{Mask, MaskForm, Masks};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    view::text,
};

/// What to do with masks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every server of the store shows {\"$windlass\":\"masked\"} in place of a masked value, to every caller, within a second. Programs
that open the store itself read the values.

Examples:
  windlass mask set exec '/props/env/*' /props/args /props/stdin /result /data --errors
  windlass mask list
  windlass mask remove exec")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Ask,
}

#[derive(Debug, Subcommand)]
enum Ask {
    /// Set what is hidden of the tasks of a kind, in place of what was
    #[command(after_help = "\
A POINTER begins with the name of a document: props, data, result, payload (of a signal), reply (to a signal), or * for each of
them. A part * stands for every element of an array or member of an object.

Examples:
  windlass mask set exec '/props/env/*' /props/args /props/stdin /result /data
  windlass mask set 'inbox/*' /props/card /payload --errors --log
  windlass mask set '*' '/*/password'")]
    Set(Set),
    /// List the masks
    #[command(after_help = "Examples:\n  windlass mask list\n  windlass mask list -o json")]
    List,
    /// Remove the mask of a kind: its values are shown again
    #[command(after_help = "Examples:\n  windlass mask remove exec")]
    Remove(Which),
}

#[derive(Debug, clap::Args)]
struct Set {
    /// The kind; 'inbox/*' for every kind that begins with inbox/, '*' for every kind
    #[arg(value_name = "KIND")]
    kind: String,

    /// The places that are hidden, such as /props/env/*
    #[arg(value_name = "POINTER")]
    pointers: Vec<String>,

    /// Hide the texts of errors too
    #[arg(long)]
    errors: bool,

    /// Hide the lines that handlers log, and the text of the progress
    #[arg(long)]
    log: bool,
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The kind, as `windlass mask list` shows it
    #[arg(value_name = "KIND")]
    kind: String,
}

/// Carries out the command.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let out = global.out();
    match args.command {
        Ask::Set(set) => {
            let mask = Mask::new(set.kind, set.pointers)?;
            let mask = mask.errors(set.errors).log(set.log);
            let client = global.lasting().await?;
            let by = Some(client.author().clone());
            Masks::new(client.store()).set(&mask, by).await?;
            out.note(format!("tasks of kind '{}' are masked", mask.kind));
            Ok(Exit::Ok)
        }
        Ask::List => list(&global.reading().await?, &out).await,
        Ask::Remove(which) => {
            let client = global.existing().await?;
            let by = Some(client.author().clone());
            match Masks::new(client.store()).remove(&which.kind, by).await? {
                true => out.note(format!("kind '{}' has no mask now", which.kind)),
                false => {
                    let text = format!(
                        "kind '{}' has no mask; `windlass mask list` shows those that have one",
                        which.kind
                    );
                    return Err(Failure::No(text));
                }
            }
            Ok(Exit::Ok)
        }
    }
}

async fn list(client: &Client, out: &Output) -> Result<Exit, Failure> {
    let masks = Masks::new(client.store()).list().await?;
    if out.is_json() {
        for mask in &masks {
            out.json(&MaskForm::from(mask))?;
        }
        return Ok(Exit::Ok);
    }
    if masks.is_empty() {
        out.note("there are no masks; `windlass mask set KIND POINTER` makes one");
    }
    let rows = masks.iter().map(MaskForm::from).map(|mask| {
        let more = [("errors", mask.errors), ("log", mask.log)];
        let more = more.into_iter().filter(|(_, hidden)| *hidden);
        let hidden: Vec<&str> = match mask.unreadable {
            Some(_) => vec!["everything of every task: the mask cannot be read"],
            None => mask
                .pointers
                .iter()
                .map(String::as_str)
                .chain(more.map(|(name, _)| name))
                .collect(),
        };
        vec![
            text(mask.kind),
            text(hidden.join(" ")),
            text(mask.set_by.map_or("", |by| by.as_str())),
        ]
    });
    out.narrow_table(&["KIND", "HIDDEN", "SET BY"], &["SET BY"], rows.collect())?;
    Ok(Exit::Ok)
}
