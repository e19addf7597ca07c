//! A task: what it is, why it waits, what has happened to it, and what can be done.

use std::collections::HashSet;

use axum::extract::Path;
use maud::{Markup, html};
use windlass::{Kind, WaitOutcome, Waits, statemachine::text::counted};

use super::{
    Answer, actions, cli, difference,
    form::{Fields, encoded},
    frame::{Page, Place},
    people,
    record::{Graph, Record},
    rows,
    seen::{Seen, see},
    text, timeline, tree, value,
};

/// How many changes the page has at first, and how many with "older".
const CHANGES: usize = 64;
const OLDER: usize = 1000;
/// How many commands the page has.
const COMMANDS: usize = 20;
/// How many lines of the log the page has.
const LINES: usize = 40;
/// The most characters of an error, and of a line of the log.
const TEXT: usize = 1500;
const LINE: usize = 300;
/// How many errors the page has.
const ERRORS: usize = 8;

pub(super) async fn show(page: Page, Path(id): Path<String>) -> Answer {
    let query = page.query()?;
    let is_older = query.get("older").is_some();
    let most = if is_older { OLDER } else { CHANGES };
    let seen = see(&page, &id, (most, query.get("tree").is_some())).await?;
    let task = &seen.task;
    let path = page.path_of(&task.id);
    let body = html! {
        div #head data-task=(task.id) {
            h1 { (text::state(&task.shown)) " " (text::name(&task.id)) }
            p.dim { "Kind " a href={ (page.base) "/tasks?kind=" (encoded(&task.kind)) } { (text::name(&task.kind)) }
                @if let Some(since) = task.shown_since { ", " (task.shown) " since " (page.moment(since)) " (" (page.ago(since)) ")" }
                @if let Some(late) = rows::late(task) { ", " strong { (late) } }
                @if let Some(paused) = rows::paused(task) { ", " bdi { (paused) } }
            }
        }
        (actions::proof(&page, &seen, query.get("sent")))
        (why(&page, &seen))
        @if let Some(signal) = &task.awaits_signal {
            section.asked #asked {
                h2 { "It asks" }
                @if seen.is_answered(&signal.name) {
                    p.dim { "The signal " (text::name(&signal.name)) " was sent; it waits for a node that runs the task." }
                } @else { (people::form(&page, task, signal, "task")) }
            }
        }
        (actions::offer(&page, task))
        div.columns {
            section #facts { h2 { "Facts" } (facts(&page, &seen)) }
            section #errors { h2 { "Errors" } (errors(&page, task)) }
        }
        section #commands { h2 { "Commands" } (commands(&page, &seen)) }
        section #history {
            h2 { "Timeline" }
            (timeline::show(&page, &seen.changes))
            @if seen.has_older && !is_older {
                p { a href={ (path) "?older=1#history" } { "Older: the last " (OLDER) " changes" } }
            }
            @if seen.has_older && is_older {
                p.dim { "These are the last " (OLDER) " changes; " code { (cli::on(&format!("get --history={}", OLDER * 10), &task.id)) } " shows more." }
            }
        }
        section #values { h2 { "Values" } (values(&page, task)) }
        section #log { h2 { "Log" } (log(&page, &seen)) }
        section #waits {
            h2 { "Waits" }
            @if let Some(graph) = &seen.graph { (tree::show(&page, graph, &task.id)) }
            @if query.get("tree").is_none() {
                p { a href={ (path) "?tree=1#waits" } { "Show the tasks that wait for this one" } }
            }
        }
    };
    let line = cli::on("get --history", &task.id);
    Ok(page.show((Place::Tasks, &task.id), &line, &body))
}

/// Shows why the task is not run, with the command that resolves it.
fn why(page: &Page, seen: &Seen) -> Markup {
    let task = &seen.task;
    let (command, link): (Option<String>, Option<(String, &str)>) = match seen.why.reason.as_deref()
    {
        _ if task.is_quarantined() => (Some(cli::on("retry", &task.id)), None),
        Some("signal") => {
            let name = task
                .awaits_signal
                .as_ref()
                .map_or("NAME", |signal| &signal.name);
            let words = [&*task.id, name];
            (Some(cli::with("signal --payload JSON", &words)), None)
        }
        _ if task.state == "paused" => (Some(cli::on("resume", &task.id)), None),
        Some("no_node" | "data_version" | "labels") => (
            // Other kinds need the program that has their handler.
            match task.kind.as_str() {
                Kind::COMMAND | Kind::SCHEDULE | Kind::BULK => Some("windlass worker".to_owned()),
                // So does the same run again, whose input is not stored.
                Kind::RUN_LINE => Some(take_run(task)),
                _ => None,
            },
            Some(("/nodes".to_owned(), "Nodes")),
        ),
        Some("not_claiming") => (
            Some("windlass node unfreeze NODE".to_owned()),
            Some(("/nodes".to_owned(), "Nodes")),
        ),
        // A node that runs is lost when the store refuses its writes, on a full disk for example.
        Some("lost") => (
            Some("windlass doctor".to_owned()),
            Some(match page.is_admin() {
                true => (
                    "/doctor".to_owned(),
                    "Doctor: whether the store takes writes",
                ),
                false => ("/nodes".to_owned(), "Nodes"),
            }),
        ),
        Some("full" | "fault") => (
            Some("windlass nodes".to_owned()),
            Some(("/nodes".to_owned(), "Nodes")),
        ),
        Some("limit") => holders(page, task),
        Some("tasks") => (Some(cli::on("graph", &task.id)), None),
        _ if task.state == "sleeping" && task.node.is_none() => {
            (Some(cli::on("resume", &task.id)), None)
        }
        _ if task.state == "failed" => (Some(again(task, seen.graph.as_ref())), None),
        _ => (None, None),
    };
    let link = link.filter(|(path, _)| page.sees_everything() || path.starts_with("/tasks"));
    let is_held = seen.why.reason.is_some() || task.is_quarantined();
    html! {
        div #why class={ "why" @if is_held { " held" } } {
            p { strong { @if is_held { "It waits: " } @else { "Now: " } }
                @match (&task.quarantined, &seen.why.text) {
                    (Some(reason), _) => { "its record cannot be read: " bdi { (text::cut(reason, TEXT)) } }
                    (None, Some(_)) if task.state == "failed" => { "it has failed: " bdi { (text::cut(failure(task), 400)) } },
                    (None, Some(text)) => bdi { (text::cut(text, TEXT)) },
                    (None, None) => { "the reason concerns nodes and tasks outside of the scope of your token" }
                }
            }
            @if let Some(command) = command { p { code.command { (command) } } }
            @if let Some((path, text)) = link { p { a href={ (page.base) (path) } { (text) } } }
        }
    }
}

/// Returns the command that starts a failed task again. One that did not run, because another has to complete first, would fail
/// again: the command names the first failed task of that chain.
fn again(task: &Record, graph: Option<&Graph>) -> String {
    let unmet = task.waits_for.as_ref().and_then(Waits::unmet);
    match unmet.map(|one| (one.outcome, one.task)) {
        None => cli::on("retry", &task.id),
        Some((WaitOutcome::Failed | WaitOutcome::Killed, before)) => {
            let first = graph.map_or(before.as_str(), |graph| {
                first_failed(graph, before.as_str())
            });
            cli::on("retry --with-dependents", first)
        }
        Some(_) => cli::on("graph", &task.id),
    }
}

/// Returns the first task that failed or was killed before this one in the graph.
fn first_failed<'a>(graph: &'a Graph, of: &'a str) -> &'a str {
    let ended = graph.tasks.iter();
    let ended = ended.filter(|one| matches!(&*one.shown, "failed" | "killed"));
    let ended: HashSet<&str> = ended.map(|one| &*one.id).collect();
    let (mut first, mut seen) = (of, HashSet::from([of]));
    loop {
        let before = graph.edges.iter().filter(|edge| edge.task == first);
        let mut before = before.map(|edge| &*edge.waits_for);
        match before.find(|id| ended.contains(id) && seen.insert(id)) {
            Some(id) => first = id,
            None => return first,
        }
    }
}

/// Returns the command and the link that list the tasks with a slot of the limit that holds a task back.
fn holders(page: &Page, task: &Record) -> (Option<String>, Option<(String, &'static str)>) {
    let Some(by) = &task.limited_by else {
        return (Some("windlass stats".to_owned()), None);
    };
    let pairs = [("claimed", "true"), ("limit_key", &*by.limit.key)];
    let query = Fields::of(&pairs);
    let path = format!("/tasks{}", query.query());
    (
        Some(cli::list("list", &query.0)),
        page.may_select(&pairs)
            .then_some((path, "The tasks that have its slots")),
    )
}

/// Returns the first line of the error that has failed the task.
fn failure(task: &Record) -> &str {
    let line = task
        .errors
        .last()
        .and_then(|entry| entry.error.lines().next());
    line.unwrap_or("no error is kept")
}

fn facts(page: &Page, seen: &Seen) -> Markup {
    let task = &seen.task;
    let fact = |name: &str, value: Markup| html! { dt { (name) } dd { (value) } };
    html! {
        dl {
            (fact("Owner", html! {
                @match &task.node {
                    Some(node) if page.sees_everything() => a href={ (page.base) "/tasks?node=" (encoded(node)) } { (text::name(node)) },
                    Some(_) => "a node",
                    None => span.dim { "none" },
                }
                @if let Some(left) = seen.lease_left_ms { ", lease left " (left / 1000) " s" }
            }))
            (fact("Fence", html! { (task.fence) }))
            (fact("Attempt", html! {
                @if task.has_ended() { (task.attempts) " failed" } @else { (task.attempts + 1) }
                @if let Some(left) = task.attempts_left { ", " (left) " left" }
                @if task.incarnation > 0 { ", incarnation " (task.incarnation) }
            }))
            @if let Some(until) = task.until { (fact("Wakes", html! { (page.moment(until)) " (" (page.ago(until)) ")" })) }
            @if let Some(by) = task.start_by { (fact("Must start by", page.moment(by))) }
            @if let Some(by) = task.end_by { (fact("Must end by", page.moment(by))) }
            @if let Some(version) = task.data_version { (fact("Data version", html! { (version) })) }
            @if let Some(version) = task.version { (fact("State version", html! { (version) })) }
            @if task.priority != 0 { (fact("Priority", html! { (task.priority) })) }
            (fact("Submitted", html! { (page.moment(task.submitted_at)) }))
            @if task.commands_waiting > 0 { (fact("Commands", html! { (task.commands_waiting) " in its queue" })) }
            @if let Some(waits) = &task.waits_for { (fact("Waits for", html! { a href="#waits" { (counted(waits.tasks.len() as u64, "task")) } })) }
            @if let Some(progress) = &task.progress {
                (fact("Progress", html! {
                    @if let Some(part) = progress.fraction { progress value=(part) max="1" {} " " (format!("{:.0} %", part * 100.0)) " " }
                    bdi { (text::cut(progress.text.as_deref().unwrap_or_default(), LINE)) }
                }))
            }
            @for (name, text) in &task.labels {
                (fact("Label", html! {
                    a.label href={ (page.base) "/tasks?label=" (encoded(&format!("{name}={text}"))) } {
                        bdi { (text::cut(name, 60)) "=" (text::cut(text, 100)) }
                    }
                }))
            }
            @for limit in &task.limits {
                (fact("Limit", html! { (text::name(&limit.key)) ", "
                    @if let Some(most) = limit.at_once { (most) " at once" }
                    @if let Some(starts) = limit.starts { (starts) " starts in " (limit.within.as_deref().unwrap_or_default()) }
                }))
            }
        }
    }
}

/// Links the failed tasks with the same error; those of the same kind when a mask hides the errors of another one.
fn same_error(page: &Page, task: &Record, fingerprint: &str) -> Markup {
    let of_all = [("state", "failed"), ("fingerprint", fingerprint)];
    let of_kind = [of_all[0], of_all[1], ("kind", &task.kind)];
    let (pairs, text) = match page.may_select(&of_all) {
        true => (&of_all[..], "Failed tasks with the same error"),
        false => (
            &of_kind[..],
            "Failed tasks of this kind with the same error",
        ),
    };
    html! { @if page.may_select(pairs) { a href={ (page.base) "/tasks" (Fields::of(pairs).query()) } { (text) } } }
}

fn errors(page: &Page, task: &Record) -> Markup {
    html! {
        @if task.errors.is_empty() { p.none { "None." } }
        @for entry in task.errors.iter().rev().take(ERRORS) {
            div.entry {
                p.dim { (page.moment(entry.timestamp)) " (" (page.ago(entry.timestamp)) ")" @if entry.abandoned { ", the node was lost" }
                    @if let Some(node) = entry.node.as_ref().filter(|_| page.sees_everything()) { " on " a href={ (page.base) "/tasks?node=" (encoded(node)) } { (text::name(node)) } }
                    @if let Some(version) = entry.data_version { ", data version " (version) }
                }
                pre { bdi { (text::cut(&entry.error, TEXT)) } }
                @if entry.error.chars().nth(TEXT).is_some() {
                    p { a href={ (page.base) "/v1/tasks/" (encoded(&task.id)) } { "The whole error, as JSON" } }
                }
            }
        }
        @if let (Some(fingerprint), false) = (&task.fingerprint, task.is_quarantined()) {
            p { (same_error(page, task, fingerprint))
                @if task.errors_total > task.errors.len() as u64 { span.dim { ", " (task.errors_total) " errors in all" } }
            }
        }
    }
}

fn commands(page: &Page, seen: &Seen) -> Markup {
    html! {
        @if seen.commands.is_empty() { p.none { "None was sent." } } @else {
            table.rows {
                thead { tr { th { "Command" } th { "Sent" } th.w { "By" } th { "Outcome" } } }
                tbody { @for sent in seen.commands.iter().rev().take(COMMANDS) {
                    tr data-key=(sent.order) {
                        td { (sent.command.message) @if let Some(name) = &sent.command.name { " " (text::name(name)) }
                            @if let Some(note) = &sent.note { p.dim { bdi { (text::cut(note, TEXT)) } } } }
                        td { (page.moment(sent.sent_at)) }
                        td.w { @if let Some(by) = &sent.by { bdi { (by) } } }
                        td { (actions::outcome(seen, sent)) }
                    }
                } }
            }
            @if seen.commands.len() > COMMANDS { p.dim { "The last " (COMMANDS) " of " (seen.commands.len()) "." } }
        }
    }
}

fn values(page: &Page, task: &Record) -> Markup {
    let whole = format!("{}/v1/tasks/{}", page.base, encoded(&task.id));
    let all = [
        ("Props", &task.props),
        ("Data of the last checkpoint", &task.data),
        ("Result", &task.result),
    ];
    html! {
        @for (name, json) in all {
            @if let Some(json) = json { h3 { (name) } (value::show(json, &whole)) }
        }
        @if !task.earlier_data.is_empty() { (difference::show(page, task)) }
        p { a href=(whole) { "The task as JSON" } }
    }
}

/// Returns the worker that continues the batch of a line of a run.
fn take_run(task: &Record) -> String {
    let batch = task.labels.get("batch").map(|name| format!("batch={name}"));
    let mut words = vec!["windlass", "worker", "--take-runs", "--until-idle"];
    words.extend(batch.iter().flat_map(|batch| ["--select", batch]));
    cli::line(&words)
}

fn log(page: &Page, seen: &Seen) -> Markup {
    let lines = &seen.log.lines;
    let from = lines.len().saturating_sub(LINES);
    html! {
        @if lines.is_empty() {
            p.none { "Its handler has logged nothing." }
            @if [Kind::COMMAND, Kind::RUN_LINE].contains(&seen.task.kind.as_str()) { p.dim { "The output of its command is on the machine of its worker: " code { (cli::on("logs", &seen.task.id)) } } }
        } @else {
            @if from > 0 || seen.log.gone > 0 {
                p.dim { "The last " (lines.len() - from) " lines; " code { (cli::on("logs", &seen.task.id)) } " prints all that are kept." }
            }
            div.log { @for line in &lines[from..] {
                p { span.dim { (page.moment(line.at)) " #" (line.attempt) " " } bdi { (text::cut(&line.text, LINE)) } }
            } }
        }
    }
}
