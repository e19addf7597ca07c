//! [`Hiding`]: what the masks of a namespace hide at one moment.

use windlass::{
    Json, Kind,
    store::{Filter, NamedValue, TaskRecord},
};

use super::{
    path::{Document, Path, hidden, hidden_texts},
    placeholder::HIDDEN,
    row::{FOLDER, Mask},
};
use crate::problem::Problem;

/// The field of a schedule's data, and of its form, that says why it is paused.
const NOTE: &str = "note";

/// What the masks of a namespace hide at one moment.
#[derive(Debug, Default)]
pub(crate) struct Hiding {
    masks: Vec<OfKind>,
    /// A mask cannot be read, so everything is hidden.
    everything: bool,
}

#[derive(Debug)]
struct OfKind {
    mask: Mask,
    paths: Vec<Path>,
}

/// What is hidden of the tasks of one kind.
#[derive(Debug, Default)]
pub(crate) struct Hidden<'a> {
    paths: Vec<&'a Path>,
    everything: bool,
    pub(crate) errors: bool,
    pub(crate) log: bool,
}

impl Hidden<'_> {
    /// Returns whether anything is hidden.
    pub(crate) fn is_any(&self) -> bool {
        self.everything || self.errors || self.log || !self.paths.is_empty()
    }

    /// Returns whether a part of a document is hidden.
    pub(crate) fn hides(&self, document: Document) -> bool {
        self.everything || self.paths.iter().any(|path| path.is_in(document))
    }

    fn places(&self, document: Document) -> Vec<&[String]> {
        if self.everything && document != Document::Spec {
            return vec![&[]];
        }
        let paths = self.paths.iter().filter(|path| path.is_in(document));
        paths.map(|path| path.parts()).collect()
    }

    /// Returns whether everything that another kind hides is hidden here too.
    fn covers(&self, other: &Self) -> bool {
        let covered = |other: &&Path| self.paths.iter().any(|path| path.covers(other));
        self.everything
            || !other.everything
                && (self.errors || !other.errors)
                && (self.log || !other.log)
                && other.paths.iter().all(covered)
    }
}

impl Hiding {
    /// Reads the rows with masks among named values. One that cannot be read hides everything.
    pub(crate) fn read(values: &[NamedValue]) -> Self {
        let mut hiding = Self::default();
        for value in values.iter().filter(|value| value.name.starts_with(FOLDER)) {
            let read = Mask::read(value).and_then(|mask| Ok((mask.paths()?, mask)));
            match read {
                Ok((paths, mask)) => hiding.masks.push(OfKind { mask, paths }),
                Err(error) => {
                    tracing::error!(row = %value.name, %error, "a mask could not be read; everything of every task is hidden");
                    hiding.everything = true;
                }
            }
        }
        hiding
    }

    /// Returns whether nothing is hidden.
    pub(crate) fn is_nothing(&self) -> bool {
        self.masks.is_empty() && !self.everything
    }

    /// Returns whether props of any kind are hidden.
    pub(crate) fn hides_props(&self) -> bool {
        let mut paths = self.masks.iter().flat_map(|of| &of.paths);
        self.everything || paths.any(|path| path.is_in(Document::Props))
    }

    /// Returns whether props of tasks of a kind are hidden. Those of a schedule have the props of its runs.
    pub(crate) fn hides_props_of(&self, kind: &Kind) -> bool {
        let is_run = kind.as_str() == Kind::SCHEDULE && self.hides_props();
        is_run || self.of(Some(kind)).hides(Document::Props)
    }

    /// Returns whether the texts of errors of tasks of a kind are hidden. Those of a schedule may quote the props of its runs.
    pub(crate) fn hides_errors_of(&self, kind: &Kind) -> bool {
        let is_run = kind.as_str() == Kind::SCHEDULE && self.hides_props();
        is_run || self.of(Some(kind)).errors
    }

    /// Returns whether an operation at a pointer into `/props` and `/data` could read or move something that is hidden.
    pub(crate) fn touches(&self, kind: &Kind, pointer: &str) -> bool {
        let hidden = self.of(Some(kind));
        let is_run = kind.as_str() == Kind::SCHEDULE && self.hides_props();
        if hidden.everything || is_run {
            return true;
        }
        let rest = pointer.strip_prefix('/').unwrap_or_default();
        let at = rest.find('/').unwrap_or(rest.len());
        let (document, below) = rest.split_at(at);
        let document = match document {
            "props" => Document::Props,
            "data" => Document::Data,
            _ => return hidden.hides(Document::Props) || hidden.hides(Document::Data),
        };
        // An element that is added or removed moves those behind it.
        let (above, last) = below.rsplit_once('/').unwrap_or_default();
        let is_element =
            last == "-" || !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit());
        let mut paths = hidden.paths.iter().filter(|path| path.is_in(document));
        paths.any(|path| path.touches(below) || is_element && path.touches(above))
    }

    /// Returns whether data of tasks of a kind are hidden. Those of a schedule have the props of its runs.
    pub(crate) fn hides_data_of(&self, kind: &Kind) -> bool {
        let is_run = kind.as_str() == Kind::SCHEDULE && self.hides_props();
        is_run || self.of(Some(kind)).hides(Document::Data)
    }

    /// Returns what is hidden of the tasks of a kind; `None` for a task whose kind is not known, of which everything is hidden
    /// that may be.
    pub(crate) fn of(&self, kind: Option<&Kind>) -> Hidden<'_> {
        match kind {
            Some(kind) => self.of_text(kind.as_str()),
            None => Hidden {
                everything: !self.is_nothing(),
                errors: !self.is_nothing(),
                log: !self.is_nothing(),
                paths: Vec::new(),
            },
        }
    }

    fn of_text(&self, kind: &str) -> Hidden<'_> {
        let mut hidden = Hidden {
            everything: self.everything,
            errors: self.everything,
            log: self.everything,
            paths: Vec::new(),
        };
        for OfKind { mask, paths } in &self.masks {
            if each(&mask.kind).any(|pattern| is_of(pattern, kind)) {
                hidden.paths.extend(paths);
                hidden.errors |= mask.errors;
                hidden.log |= mask.log;
            }
        }
        hidden
    }

    /// Returns a document of a task as it is shown.
    pub(crate) fn document(&self, kind: Option<&Kind>, document: Document, json: &Json) -> Json {
        let shown = hidden(json, &self.of(kind).places(document));
        match kind.filter(|kind| kind.as_str() == Kind::SCHEDULE && !self.is_nothing()) {
            Some(kind) => {
                let shown = self.without_run(document, shown);
                self.without_note(kind, document, self.without_spec(kind, document, shown))
            }
            None => shown,
        }
    }

    /// Hides in the spec of a schedule what is hidden in its props, which are its first spec.
    fn without_spec(&self, kind: &Kind, document: Document, json: Json) -> Json {
        if !matches!(document, Document::Data | Document::Spec) || json.at("/spec").is_none() {
            return json;
        }
        let of = self.of(Some(kind));
        let places = of.places(Document::Props).into_iter().map(|parts| {
            let above = ["spec".to_owned()].into_iter();
            above.chain(parts.iter().cloned()).collect::<Vec<_>>()
        });
        let places: Vec<Vec<String>> = places.collect();
        hidden(&json, &places.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// Hides the note of a schedule where notes of commands are hidden, and where that place of its data is: the note is that of the command
    /// that has paused it.
    fn without_note(&self, kind: &Kind, document: Document, json: Json) -> Json {
        let hides = self.of(Some(kind));
        let note = [NOTE.to_owned()];
        let pointer = format!("/{NOTE}");
        let mut of_data = hides.paths.iter().filter(|path| path.is_in(Document::Data));
        let is_hidden = hides.errors || of_data.any(|path| path.touches(&pointer));
        match document {
            Document::Data | Document::Spec if is_hidden => hidden_texts(&json, &[&note], HIDDEN),
            _ => json,
        }
    }

    /// Returns whether the errors of the runs of a schedule are hidden, by its form.
    pub(crate) fn hides_errors_of_runs(&self, schedule: &Json) -> bool {
        let kind = schedule.at("/spec/run/kind");
        match kind.and_then(|kind| kind.get::<String>("kind").ok()) {
            Some(kind) => self.of_text(&kind).errors,
            None => self.of(None).errors,
        }
    }

    /// Hides the props of the runs in a document of their schedule, by the kind of the runs.
    fn without_run(&self, document: Document, json: Json) -> Json {
        let run: &[&str] = match document {
            Document::Props => &["run"],
            Document::Data | Document::Spec => &["spec", "run"],
            _ => return json,
        };
        let Some(of_run) = json.at(&format!("/{}", run.join("/"))) else {
            return json;
        };
        let kind = of_run
            .at("/kind")
            .and_then(|kind| kind.get::<String>("kind").ok());
        let hides = match &kind {
            Some(kind) => self.of_text(kind),
            None => self.of(None),
        };
        let places = hides.places(Document::Props).into_iter().map(|parts| {
            let above = run.iter().chain(&["props"]).map(|part| (*part).to_owned());
            above.chain(parts.iter().cloned()).collect::<Vec<_>>()
        });
        let places: Vec<Vec<String>> = places.collect();
        hidden(&json, &places.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// Returns whether a task with another kind would show what is hidden of it now.
    pub(crate) fn would_show(&self, task: &windlass::Task, kind: &Kind) -> bool {
        if self.is_nothing() || task.kind == *kind {
            return false;
        }
        // The props of its runs are hidden only while the task is a schedule.
        task.kind.as_str() == Kind::SCHEDULE
            || !self.of(Some(kind)).covers(&self.of(Some(&task.kind)))
    }

    /// Refuses a filter that would say something of a masked value. `scope` are the kinds that the caller may see; none for
    /// every kind.
    pub(crate) fn check_filter(&self, filter: &Filter, scope: &[String]) -> Result<(), Problem> {
        let asks =
            filter.error.is_some() || filter.fingerprint.is_some() || !filter.props.is_empty();
        let asks = asks || filter.limit_key.is_some();
        if self.is_nothing() || !asks {
            return Ok(());
        }
        let refuse = |field: &'static str, of: &str| {
            let what = format!(
                "is masked for tasks of kind '{of}', which the filter may select; leave it out, or give a kind that is not masked"
            );
            Err(Problem::masked(field, what))
        };
        if self.everything {
            let field = match (&filter.error, &filter.fingerprint) {
                (Some(_), _) => "error",
                (None, Some(_)) => "fingerprint",
                (None, None) if filter.props.is_empty() => "limit_key",
                (None, None) => "props_at",
            };
            return refuse(field, "*");
        }
        let of_schedules = may_select(filter, scope, Kind::SCHEDULE);
        for OfKind { mask, paths } in &self.masks {
            let mut props = paths.iter().filter(|path| path.is_in(Document::Props));
            let is_hidden =
                |(pointer, _): &(String, Json)| props.clone().any(|path| path.touches(pointer));
            let selects = may_select(filter, scope, &mask.kind);
            if selects && mask.errors && filter.error.is_some() {
                return refuse("error", &mask.kind);
            }
            if selects && mask.errors && filter.fingerprint.is_some() {
                return refuse("fingerprint", &mask.kind);
            }
            // A key may have values of props.
            if selects && filter.limit_key.is_some() && props.clone().next().is_some() {
                return refuse("limit_key", &mask.kind);
            }
            if selects && filter.props.iter().any(is_hidden) {
                return refuse("props_at", &mask.kind);
            }
            // The props of a run are within those of its schedule.
            let asks_for_run = |(pointer, _): &(String, Json)| {
                let run = "/run/props";
                pointer.starts_with(run) || run.starts_with(pointer.as_str())
            };
            if of_schedules && props.next().is_some() && filter.props.iter().any(asks_for_run) {
                return refuse("props_at", Kind::SCHEDULE);
            }
        }
        Ok(())
    }

    /// Returns whether a filter may have found a task. The reason why the record of a masked kind cannot be read is hidden,
    /// and the errors of schedules are with the props of their runs: they say nothing to a filter.
    pub(crate) fn may_find(&self, filter: &Filter, record: &TaskRecord) -> bool {
        let kind = &record.task.kind;
        let asks = filter.error.is_some() || filter.fingerprint.is_some();
        let is_hidden = match record.state {
            Ok(_) => self.hides_errors_of(kind),
            Err(_) => self.of(Some(kind)).is_any(),
        };
        !(asks && is_hidden)
    }
}

/// Returns whether a mask of a pattern hides parts of the tasks of a kind, or of some of the kinds of a pattern.
fn masks(pattern: &str, kinds: &str) -> bool {
    each(pattern).any(|pattern| meet(pattern, kinds))
}

/// Returns the patterns whose tasks a mask of a pattern is for: lines of a run are commands like others.
fn each(pattern: &str) -> impl Iterator<Item = &str> {
    let is_of_commands = is_of(pattern, Kind::COMMAND);
    std::iter::once(pattern).chain(is_of_commands.then_some(Kind::RUN_LINE))
}

/// Returns whether a kind, or the beginning of kinds, is among those of a pattern.
fn is_of(pattern: &str, kind: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(stem) => kind.starts_with(stem),
        None => kind == pattern,
    }
}

/// Returns whether two patterns have a kind in common.
fn meet(one: &str, other: &str) -> bool {
    match (one.strip_suffix('*'), other.strip_suffix('*')) {
        (Some(one), Some(other)) => one.starts_with(other) || other.starts_with(one),
        (Some(_), None) => is_of(one, other),
        (None, _) => is_of(other, one),
    }
}

/// Returns whether a filter may select tasks of the kinds of a pattern, which the scope has.
fn may_select(filter: &Filter, scope: &[String], pattern: &str) -> bool {
    let by_kind = filter
        .kind
        .as_ref()
        .is_none_or(|kind| masks(pattern, kind.as_str()));
    let by_prefix = filter
        .kind_prefix
        .as_ref()
        .is_none_or(|stem| masks(pattern, &format!("{stem}*")));
    let in_scope = scope.is_empty() || scope.iter().any(|kind| masks(pattern, kind));
    by_kind && by_prefix && in_scope
}

#[cfg(test)]
mod tests;
