//! Completion candidates from the store: ids, kinds and nodes.
//!
//! The scripts of `windlass completions` run this at each TAB. It prints only candidates, creates
//! nothing, and ends within a second.
//!
//! The engine of `clap_complete` is not used: it is marked as unstable, and gives a completer only the word to
//! complete, not the words before it, one of which may name the store.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use clap::{Arg, Command, FromArgMatches};
use windlass::{
    Client,
    store::{
        Filter, Page, Store,
        sqlite::{Location, SqliteStore},
    },
};

use crate::{config, global::Global, output::Format, output::Output};

/// The word that runs this function. It is not a subcommand, so that help, suggestions and completions
/// do not show it.
pub(crate) const WORD: &str = "__candidates";

/// How many candidates are printed at most.
const MOST: u32 = 200;
/// The time limit of a completion.
const PATIENCE: Duration = Duration::from_secs(1);

/// The kind of word at a place of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Id,
    Kind,
    Node,
}

/// Prints the candidates for the last of these words, one per line. The first word is the program.
pub(crate) fn execute(cli: &Command, words: &[String]) {
    let Some((last, before)) = words.split_last() else {
        return;
    };
    let Some(what) = what_stands(cli, before, last) else {
        return;
    };
    let Some(url) = store_of(cli, before) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let Ok(runtime) = runtime else { return };
    let prefix = last.as_str();
    let found = runtime.block_on(async {
        let found = tokio::time::timeout(PATIENCE, found(&url, what, prefix)).await;
        found.ok().flatten()
    });
    // A store that does not respond must not delay the exit.
    runtime.shutdown_background();
    let out = Output::new(Format::Table, false, true);
    for candidate in found.into_iter().flatten() {
        if out.line(candidate).is_err() {
            return;
        }
    }
}

/// Returns the URL of the store that these words, the environment or the configuration name.
fn store_of(cli: &Command, words: &[String]) -> Option<String> {
    let mut given = words.iter().skip(1);
    let mut typed = None;
    while let Some(word) = given.next() {
        match word.strip_prefix("--store") {
            // bash splits words at a '='.
            Some("") => typed = given.find(|word| *word != "=").cloned(),
            Some(rest) => typed = rest.strip_prefix('=').map(str::to_owned),
            None => {}
        }
    }
    let given = std::env::var_os("WINDLASS_CONFIG").map(PathBuf::from);
    let settings = config::load(given.as_deref(), cli);
    let command = match settings.ok()? {
        Some(settings) => settings.apply(cli.clone(), &[]),
        None => cli.clone(),
    };
    let matches = command.try_get_matches_from(["windlass", "stats"]).ok()?;
    let mut global = Global::from_arg_matches(&matches).ok()?;
    global.store = typed.or(global.store);
    global.store_url().ok()
}

async fn found(url: &str, what: What, prefix: &str) -> Option<Vec<String>> {
    if url == "memory:" {
        return None;
    }
    if let Some(file) = Location::of(url)
        && !SqliteStore::exists(file.path()).unwrap_or(false)
    {
        return None;
    }
    let client = Client::new(&Store::open(url).await.ok()?);
    let names: Vec<String> = match what {
        What::Id => {
            let mut filter = Filter::new();
            filter.id_prefix = (!prefix.is_empty()).then(|| prefix.to_owned());
            let page = Page::new(MOST);
            let records = client.list(&filter, page).await.ok()?;
            records.iter().map(|r| r.task.id.to_string()).collect()
        }
        What::Kind => {
            let counts = client.counts().await.ok()?;
            counts.iter().map(|count| count.kind.to_string()).collect()
        }
        What::Node => {
            let nodes = client.nodes().await.ok()?;
            nodes.iter().map(|n| n.spec.name.to_string()).collect()
        }
    };
    let names: BTreeSet<String> = names
        .into_iter()
        .filter(|name| name.starts_with(prefix))
        .collect();
    Some(names.into_iter().take(MOST as usize).collect())
}

/// Returns which names of the store can be the next word.
fn what_stands(root: &Command, before: &[String], last: &str) -> Option<What> {
    if last.starts_with('-') {
        return None;
    }
    let mut root = root.clone();
    root.build();
    let mut command = &root;
    let mut value_of: Option<&Arg> = None;
    let mut positionals = 0;
    for word in before.iter().skip(1) {
        if value_of.take().is_some() {
            continue;
        }
        if let Some(long) = word.strip_prefix("--") {
            value_of = (!long.contains('='))
                .then(|| option(command, |arg| arg.get_long() == Some(long)))
                .flatten();
        } else if let Some(short) = word.strip_prefix('-') {
            value_of = option(command, |arg| {
                arg.get_short().is_some_and(|c| short.ends_with(c))
            });
        } else if let Some(sub) = command.find_subcommand(word) {
            command = sub;
        } else {
            positionals += 1;
        }
    }
    let arg = match value_of {
        Some(arg) => arg,
        None => {
            let mut all = command.get_positionals();
            let many = |arg: &&Arg| arg.get_num_args().is_some_and(|n| n.max_values() > 1);
            let last = command.get_positionals().last().filter(many);
            all.nth(positionals).or(last)?
        }
    };
    match arg.get_value_names()?.first()?.as_str() {
        "ID" if command.get_name() != "submit" => Some(What::Id),
        "KIND" => Some(What::Kind),
        "NODE" => Some(What::Node),
        _ => None,
    }
}

/// Returns the option of a command that takes a value.
fn option(command: &Command, is_it: impl Fn(&Arg) -> bool) -> Option<&Arg> {
    command
        .get_arguments()
        .find(|arg| !arg.is_positional() && is_it(arg) && arg.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_known_by_the_words_before_it() {
        let command = <crate::args::Cli as clap::CommandFactory>::command();
        for (line, what) in [
            ("windlass get ", Some(What::Id)),
            ("windlass get a b", None),
            ("windlass pause a b", Some(What::Id)),
            ("windlass -o json logs x", Some(What::Id)),
            ("windlass --store sqlite:x get ", Some(What::Id)),
            ("windlass --store=sqlite:x get ", Some(What::Id)),
            ("windlass list --kind ", Some(What::Kind)),
            ("windlass list --node ", Some(What::Node)),
            ("windlass submit ", Some(What::Kind)),
            ("windlass submit k --id ", None),
            ("windlass list ", None),
            ("windlass get --", None),
            ("windlass ", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let (last, before) = words.split_last().unwrap();
            assert_eq!(what_stands(&command, before, last), what, "{line}");
        }
    }
}
