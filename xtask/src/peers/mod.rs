//! `cargo xtask bench peers`: compares windlass with other systems, in alternating rounds.
//!
//! | module | what |
//! |---|---|
//! | [`options`] | the command line |
//! | [`catalog`] | the peers, their settings, and the setting of windlass that each is compared with |
//! | [`attended`] | the folder of a run, and what an interrupted run leaves behind |
//! | [`build`] | builds the programs of `benches/peers/` |
//! | [`program`] | runs one job of a program |
//! | [`store`] | a new store of windlass or of a peer, and the jobs on it |
//! | [`server`] | the server of a peer |
//! | [`syncs`] | counts the calls of a job that sync a file |
//! | [`rounds`] | the order of the sides in a round |
//! | [`flow`] | submits and drained tasks, in rounds |
//! | [`kills`] | workers that are killed, and the tasks that they leave |
//! | [`lateness`] | the time from a submit to the start of the handler on an idle worker |
//! | [`sleepers`] | the memory of an idle worker beside jobs that are due in a year |
//! | [`machine`] | transitions, starts and commands on etcd, in rounds |
//! | [`python`] | workers in Python, beside windlass with its SDK |
//! | [`report`] | medians, ratios, the table, JSON |

mod attended;
mod build;
mod catalog;
mod flow;
mod kills;
mod lateness;
mod machine;
mod measure;
mod options;
mod program;
mod python;
mod report;
mod rounds;
mod server;
mod sleepers;
mod store;
mod syncs;

use catalog::Jobs;
use measure::Measure;
use options::Options;
use report::Report;

pub(crate) use attended::{CHORE, tidy};

const HELP: &str = include_str!("help.txt");

/// Why a peer or a measure is left out: the error text of a step.
type StepResult<T> = Result<T, String>;

pub(crate) fn bench(args: &[String]) -> Result<(), String> {
    if let [topic, rest @ ..] = args
        && topic == python::NAME
    {
        return match attended::folder() {
            Some(folder) => python::measure(rest, &folder),
            None => attended::run(None, args),
        };
    }
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return Ok(());
    }
    let options = Options::parse(args)?;
    match attended::folder() {
        Some(folder) => measure(&options, &folder),
        None => attended::run(options.dir.as_deref(), args),
    }
}

fn measure(options: &Options, folder: &std::path::Path) -> Result<(), String> {
    let mut report = Report::default();
    let mut programs = build::Programs::new()?;
    let tracer = syncs::Tracer::find();
    if let Err(why) = &tracer {
        report.leave_out("calls that sync a file", why);
    }
    for contender in options.contenders() {
        eprintln!("==> {}", contender.name);
        // A peer that is missing costs no build of windlass.
        if let Err(why) = programs.get(contender.program) {
            report.leave_out(contender.name, &why);
            continue;
        }
        for measure in options.measures(contender) {
            let done = match (contender.jobs, measure) {
                (Jobs::Machine, measure) => {
                    let mut run = machine::Run {
                        options,
                        folder,
                        contender,
                        programs: &mut programs,
                    };
                    match measure {
                        Measure::Sleepers => run.sleepers(&mut report),
                        _ => run.measure(&mut report),
                    }
                }
                (Jobs::Queue, measure) => {
                    let mut run = flow::Run {
                        options,
                        folder,
                        contender,
                        programs: &mut programs,
                        tracer: tracer.as_ref().ok(),
                    };
                    match measure {
                        Measure::Rates => run.measure(&mut report),
                        Measure::Kills => kills::measure(&mut run, &mut report),
                        Measure::Lateness => lateness::measure(&mut run, &mut report),
                        Measure::Sleepers => sleepers::measure(&mut run, &mut report),
                    }
                }
            };
            if let Err(why) = done {
                report.leave_out(&format!("{}, {}", contender.name, measure.name()), &why);
            }
        }
    }
    if options.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.table());
    }
    Ok(())
}
