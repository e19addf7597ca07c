//! A process to be recorded: `windlass-power-loss-workload FOLDER small`, `… copy`,
//! `… large`, or `… busy SEED full|normal`.

use std::path::Path;

use windlass::store::sqlite::Synchronous;
use windlass_power_loss::{BoxError, workload};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [folder, "small"] => workload::small(Path::new(folder)).await,
        [folder, "copy"] => workload::copy(Path::new(folder)).await,
        [folder, "large"] => workload::large(Path::new(folder)).await,
        [folder, "busy", seed, synchronous] => {
            let synchronous = match synchronous {
                "normal" => Synchronous::Normal,
                _ => Synchronous::Full,
            };
            workload::busy(Path::new(folder), seed.parse()?, synchronous).await
        }
        _ => Err("usage: see the head of the source".into()),
    }
}
