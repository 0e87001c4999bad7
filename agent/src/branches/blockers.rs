//! What stands in the way of a copy, as details of an error and in words.

use super::phase::{Phase, Site};
use crate::channel::error::RequestError;
use crate::shard::Shard;
use serde_json::{Map, Value, json};

const BLOCKERS_LIMIT_BYTES: usize = 16 << 10;

impl Shard {
    /// The refusal that names every source that cannot be copied, and why.
    pub(super) fn uncopied(&self, phase: &Phase) -> RequestError {
        let refused = phase.origins.iter().filter(|origin| origin.refused);
        let sources: Vec<Value> = refused
            .map(|origin| {
                let text = origin.blockers.iter().map(describe).collect::<Vec<_>>().join("; ");
                match origin.site {
                    Site::Row(local) => {
                        json!({"row": self.rows[local].index, "blockers": origin.blockers, "text": text})
                    }
                    Site::State(slot) => json!({"state": slot, "blockers": origin.blockers, "text": text}),
                }
            })
            .collect();
        let first = &sources[0];
        let name = if first["row"].is_number() { format!("row {}", first["row"]) } else { "a state".to_owned() };
        let more = if sources.len() > 1 { format!(" and {} more", sources.len() - 1) } else { String::new() };
        let text = first["text"].as_str().unwrap_or_default();
        RequestError::new("fork_unsupported", format!("{name}{more} cannot be copied: {text}"))
            .with_hint("remove what is named, or give the environment get_state and set_state")
            .with_details(json!({"sources": sources}))
    }
}

/// Blockers as an environment names them: objects, and not too many.
pub(super) fn reported(given: Option<Value>, message: Option<String>) -> Vec<Value> {
    let listed = match given {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let fits = listed.iter().map(|blocker| blocker.to_string().len()).sum::<usize>() <= BLOCKERS_LIMIT_BYTES;
    if !listed.is_empty() && fits && listed.iter().all(Value::is_object) {
        return listed;
    }
    let mut message = message.unwrap_or_else(|| "it did not say why".to_owned());
    message.truncate(message.floor_char_boundary(BLOCKERS_LIMIT_BYTES));
    vec![json!({"reason": message})]
}

/// `{"threads":3,"names":["openblas"]}` as `threads: 3 (openblas)`.
fn describe(blocker: &Value) -> String {
    let empty = Map::new();
    let members = blocker.as_object().unwrap_or(&empty);
    let beside = |name: &str| name == "names" || name == "descriptors";
    let facts: Vec<String> = members
        .iter()
        .filter(|(name, _)| !beside(name))
        .map(|(name, value)| match value {
            Value::Bool(true) => plain(name),
            _ => format!("{}: {}", plain(name), in_words(value)),
        })
        .collect();
    let others: Vec<String> =
        members.iter().filter(|(name, _)| beside(name)).map(|(_, value)| in_words(value)).collect();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
    format!("{}{others}", facts.join(", "))
}

fn in_words(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(in_words).collect::<Vec<_>>().join(", "),
        Value::Object(members) => {
            let each = members.iter().map(|(name, value)| format!("{} {}", plain(name), in_words(value)));
            each.collect::<Vec<_>>().join(", ")
        }
        Value::String(text) => text.chars().flat_map(shown).collect(),
        other => other.to_string(),
    }
}

fn plain(name: &str) -> String {
    name.replace('_', " ").chars().flat_map(shown).collect()
}

/// Control characters are escaped: the text is shown on terminals.
fn shown(character: char) -> Vec<char> {
    if character.is_control() { character.escape_default().collect() } else { vec![character] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocker_is_told_in_words() {
        let told = |blocker: Value| describe(&blocker);
        assert_eq!(told(json!({"threads": 3, "names": ["openblas"]})), "threads: 3 (openblas)");
        assert_eq!(told(json!({"sockets": 1, "descriptors": [7, 8]})), "sockets: 1 (7, 8)");
        assert_eq!(told(json!({"spawned": true})), "spawned");
        assert_eq!(told(json!({"branching": false})), "branching: false");
        let workspace = json!({"workspace": {"bytes": 5, "limit_bytes": 4}});
        assert_eq!(told(workspace), "workspace: bytes 5, limit bytes 4");
        assert_eq!(told(json!({"reason": "a\u{1b}[2Jb\n"})), "reason: a\\u{1b}[2Jb\\n");
    }

    #[test]
    fn what_an_environment_reports_is_kept_only_as_a_list_of_objects() {
        assert_eq!(reported(Some(json!([{"threads": 1}])), None), [json!({"threads": 1})]);
        assert_eq!(reported(Some(json!(["threads"])), Some("no".into())), [json!({"reason": "no"})]);
        assert_eq!(reported(None, None), [json!({"reason": "it did not say why"})]);
        let long = reported(None, Some("é".repeat(20_000)));
        assert_eq!(long[0]["reason"].as_str().map(str::len), Some(16 << 10));
    }
}
