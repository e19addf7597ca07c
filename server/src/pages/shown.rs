//! How a page shows times, links to tasks, and counts.

use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    form::{Fields, encoded},
    frame::Page,
    text::{grouped, length, name},
};

impl Page {
    /// Shows a time, with its distance from now.
    pub(super) fn ago(&self, at: Timestamp) -> Markup {
        let distance = self.now.as_second() - at.as_second();
        let text = match distance {
            0 => "now".to_owned(),
            s if s > 0 => format!("{} ago", length(s)),
            s => format!("in {}", length(-s)),
        };
        html! { time datetime=(at) title=(self.date(at)) { (text) } }
    }

    /// Shows a time as the clocks of the chosen zone do, with milliseconds.
    pub(super) fn moment(&self, at: Timestamp) -> Markup {
        let (local, today) = (
            at.to_zoned(self.zone.clone()),
            self.now.to_zoned(self.zone.clone()),
        );
        let form = match local.date() == today.date() {
            true => "%H:%M:%S%.3f",
            false => "%Y-%m-%d %H:%M:%S",
        };
        html! { time datetime=(at) title=(self.date(at)) { (local.strftime(form)) } }
    }

    /// Returns a time with its date and its zone.
    pub(super) fn date(&self, at: Timestamp) -> String {
        let local = at.to_zoned(self.zone.clone());
        local.strftime("%Y-%m-%d %H:%M:%S%.3f %Z").to_string()
    }

    /// Returns the path of a task's page.
    pub(super) fn path_of(&self, id: &str) -> String {
        format!("{}/tasks/{}", self.base, encoded(id))
    }

    /// Shows an id as a link to its task.
    pub(super) fn task(&self, id: &str) -> Markup {
        html! { a.id href=(self.path_of(id)) { (name(id)) } }
    }

    /// Shows a number as a link to the tasks that it counts, where the caller may list them.
    pub(super) fn count(&self, tasks: u64, pairs: &[(&str, &str)]) -> Markup {
        let is_link = self.may_select(pairs);
        let query = Fields::of(pairs).query();
        html! {
            @if tasks == 0 { span.dim { "0" } } @else if !is_link { (grouped(tasks)) } @else {
                a.number href={ (self.base) "/tasks" (query) } { (grouped(tasks)) }
            }
        }
    }
}
