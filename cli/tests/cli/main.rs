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
mod cluster_example;
mod config;
mod copy;
mod crontab;
mod deadlines;
mod debounce;
mod end_of_time;
mod env;
mod etcd;
mod export;
mod failures;
mod files;
mod folders;
mod json;
mod learn_pages;
mod leftovers;
mod live;
mod log_lines;
mod logs;
mod machine_faults;
mod nodes;
mod output;
mod props_of_schedules;
mod read_only;
mod reading;
mod readme;
mod reference;
mod reschedules;
mod run;
mod run_again;
mod run_output;
mod run_remedies;
mod run_screen;
mod schedule_bulk;
mod schedule_commands;
mod schedule_ends;
mod schedule_fields;
mod schedule_previews;
mod schedules;
mod serve;
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
mod supervisor;
mod tables;
mod tips;
mod top;
mod traces;
mod unique_page;
mod variables;
mod waiting;
mod watching;
mod why;
mod worker;
mod workers_page;
