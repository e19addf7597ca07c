//! G4: of two submits of one id at the same time exactly one makes the task, and it is that task.

use super::Found;
use crate::{
    race::{Answer, Race},
    reuse::Serving,
    world::World,
};

pub(super) fn check(world: &World) -> Found {
    let mut found = Found::new();
    for race in &world.promised.races {
        found.extend(of(world, race).map(|how| (race.task.clone(), how)));
    }
    found
}

fn of(world: &World, race: &Race) -> Option<String> {
    let with = |wanted| {
        let all = race.submits.iter().filter(move |(_, a)| *a == wanted);
        all.map(|(word, _)| *word).collect::<Vec<_>>()
    };
    let (won, unknown) = (with(Answer::Won), with(Answer::Unknown));
    let subject = world.subjects.get(&race.task);
    let serving = subject.map(|s| s.record.task.props.get::<Serving>("props"));
    let word = serving.and_then(Result::ok).map(|s| s.word);
    match (&won[..], word) {
        ([_, _], _) => Some("both submits were acknowledged".to_owned()),
        ([own], Some(word)) if *own != word => {
            Some(format!("submit {own} was acknowledged; {word} is there"))
        }
        ([own], None) => Some(format!("submit {own} was acknowledged; nothing is there")),
        ([], Some(word)) if !unknown.contains(&word) => {
            Some(format!("submit {word} was refused; it is there"))
        }
        ([], None) if unknown.is_empty() => {
            Some("both submits were refused, and nothing is there".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;
    use super::*;

    fn race(one: Answer, two: Answer, there: Option<u64>) -> World {
        let mut world = World::default();
        if let Some(word) = there {
            let serving = Serving {
                word,
                upto: 1,
                pace: 1,
            };
            let mut task = subject(vec![submitted()]);
            task.record.task.props = windlass::Json::new("props", &serving).unwrap();
            world.subjects.insert(id(), task);
        }
        world.promised.races.push(Race {
            task: id(),
            submits: [(1, one), (2, two)],
        });
        world
    }

    #[test]
    fn one_winner_holds() {
        holds(check(&race(Answer::Won, Answer::Lost, Some(1))));
        holds(check(&race(Answer::Unknown, Answer::Lost, Some(1))));
        holds(check(&race(Answer::Unknown, Answer::Unknown, None)));
    }

    #[test]
    fn any_other_end_is_caught() {
        let both = race(Answer::Won, Answer::Won, Some(1));
        caught(check(&both), "both submits were acknowledged");
        let other = race(Answer::Won, Answer::Lost, Some(2));
        caught(check(&other), "submit 1 was acknowledged; 2 is there");
        let lost = race(Answer::Won, Answer::Lost, None);
        caught(check(&lost), "nothing is there");
        let refused = race(Answer::Lost, Answer::Unknown, Some(1));
        caught(check(&refused), "submit 1 was refused");
        let none = race(Answer::Lost, Answer::Lost, None);
        caught(check(&none), "both submits were refused");
    }
}
