//! The commands as they are typed: what they print, what they change, how they end.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

mod advice;
mod apply;
mod authors;
mod background;
mod bad_input;
mod bulk;
mod candidates;
mod config;
mod crontab;
mod deadlines;
mod debounce;
mod end_of_time;
mod env;
mod json;
mod log_lines;
mod logs;
mod nodes;
mod props_of_schedules;
mod reading;
mod reference;
mod reschedules;
mod schedule_bulk;
mod schedule_commands;
mod schedule_ends;
mod schedule_fields;
mod schedule_previews;
mod schedules;
mod serving;
mod settings;
mod signals;
mod standings;
mod stats;
mod steering;
mod stores;
mod submit_states;
mod submit_waits;
mod submitting;
mod tips;
mod traces;
mod unique_page;
mod variables;
mod waiting;
mod watching;
mod why;
