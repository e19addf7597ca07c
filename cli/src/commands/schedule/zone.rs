//! The time zone of this machine, and the note about the zone of a schedule.

/// The value of `--zone` that stands for the zone of this machine.
const LOCAL: &str = "local";

/// Returns the zone that cron uses: that of this machine, unless `TZ` overrides it.
pub(super) fn of_machine() -> String {
    let variable = std::env::var("TZ").ok().filter(|zone| !zone.is_empty());
    let link = || std::fs::read_link("/etc/localtime").ok();
    let zone = variable.or_else(|| link()?.into_os_string().into_string().ok());
    zone.map_or_else(|| "UTC".to_owned(), |zone| named(&zone))
}

/// Returns the name of the zone that `TZ` or the link `/etc/localtime` contains:
/// `:/usr/share/zoneinfo/Asia/Tokyo`.
fn named(zone: &str) -> String {
    let zone = zone.strip_prefix(':').unwrap_or(zone);
    let name = zone.rsplit_once("zoneinfo/").map_or(zone, |(_, name)| name);
    match name {
        "Etc/UTC" | "/etc/localtime" => "UTC".to_owned(),
        name => name.to_owned(),
    }
}

/// Reads a zone: `local` is that of this machine.
pub(super) fn read(text: &str) -> Result<String, String> {
    Ok(match text {
        LOCAL => of_machine(),
        name => name.to_owned(),
    })
}

/// Returns a note for a schedule that has UTC by default, on a machine in another zone.
pub(super) fn note_of_default() -> Option<String> {
    let here = of_machine();
    (here != "UTC").then(|| {
        format!(
            "note: its times are in UTC, and the zone of this machine is {here}; `--zone local` takes that one"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_is_the_name_in_a_path() {
        assert_eq!(named("/usr/share/zoneinfo/Asia/Tokyo"), "Asia/Tokyo");
        assert_eq!(named(":Europe/Berlin"), "Europe/Berlin");
        assert_eq!(named("Etc/UTC"), "UTC");
    }
}
