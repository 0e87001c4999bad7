//! Vectorised environments: each process holds one, with its own autoreset, and its rows go together.

mod harness;

use harness::{batch_with, crews, request_with, try_crews};
use serde_json::{Value, json};

fn settings(autoreset: Value, more: Value) -> Value {
    let mut vector = json!({"class": "CrewVector", "autoreset": autoreset});
    for (key, value) in more.as_object().expect("members") {
        vector[key] = value.clone();
    }
    json!({"vector": vector, "raw": true})
}

fn refusal(frame: harness::Frame) -> String {
    assert_eq!(frame.head["ok"], false, "{}", frame.head);
    assert_eq!(frame.head["error"]["code"], "vectorized_unsupported", "{}", frame.head);
    let message = frame.head["error"]["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("CrewVector"), "{message}");
    message
}

#[test]
fn its_own_same_step_autoreset_is_the_pools() {
    for wish in [Value::Null, json!("auto"), json!("same_step")] {
        let (mut agent, started) = crews(settings(json!("same_step"), json!({})), 5, 2, json!({"autoreset": wish}));
        assert_eq!(started["hello"]["vector"]["class"], "CrewVector");
        let batch = agent.step(json!([1, 9, 8, 1, 9]), json!({}));
        assert_eq!(batch.column("rewards"), json!([1.0, 9.0, 8.0, 1.0, 9.0]));
        assert_eq!(batch.column("obs"), json!([[1.0, 1.0], [1.0, 0.0], [2.0, 0.0], [1.0, 1.0], [4.0, 0.0]]));
        assert_eq!(batch.column("infos")[1]["final_obs"], json!([9.0, 1.0]));
        assert_eq!(agent.step(json!([1, 2, 3, 4, 5]), json!({})).column("rewards")[1], 2.0);
        assert_eq!(agent.status()["rows"][1]["episode"], 2, "its own resets count");
    }
}

#[test]
fn its_own_next_step_autoreset_is_the_pools() {
    let (mut agent, _) = crews(settings(json!("next_step"), json!({})), 4, 4, json!({"autoreset": "auto"}));
    let batch = agent.step(json!([1, 9, 1, 1]), json!({}));
    assert_eq!((batch.column("obs")[1].clone(), &batch.column("terminated")[1]), (json!([9.0, 1.0]), &json!(true)));
    let batch = agent.step(json!([1, 5, 1, 1]), json!({}));
    assert_eq!((batch.column("rewards")[1].clone(), batch.column("obs")[1].clone()), (json!(0.0), json!([1.0, 0.0])));
    assert_eq!(batch.column("infos")[1]["seed"], Value::Null, "it has reset itself, in the message of all");
    assert_eq!(agent.status()["rows"][1]["episode"], 2);
}

#[test]
fn without_a_mode_of_its_own_it_is_stepped_on() {
    let (mut agent, _) = crews(settings(Value::Null, json!({})), 2, 2, json!({"autoreset": "auto"}));
    assert_eq!(agent.step(json!([9, 1]), json!({})).column("terminated"), json!([true, false]));
    assert_eq!(agent.step(json!([2, 1]), json!({})).column("obs")[0], json!([2.0, 2.0]));
}

#[test]
fn one_row_a_process_is_asked_in_the_messages_of_several_too() {
    let (mut agent, _) = crews(settings(json!("same_step"), json!({})), 2, 1, json!({}));
    assert_eq!(agent.step(json!([3, 4]), json!({})).column("rewards"), json!([3.0, 4.0]));
}

#[test]
fn another_autoreset_than_its_own_is_refused_at_the_start() {
    for (own, wish) in
        [(json!("next_step"), "same_step"), (json!("same_step"), "next_step"), (Value::Null, "same_step")]
    {
        let (_agent, started) = try_crews(settings(own, json!({})), 2, json!(2), json!({"autoreset": wish}));
        assert_eq!(started["error"]["code"], "vectorized_unsupported", "{started}");
        let message = started["error"]["message"].as_str().expect("a message");
        assert!(message.contains("CrewVector") && message.contains(wish), "{message}");
    }
}

#[test]
fn auto_is_same_step_for_any_other_environment() {
    let (mut agent, _) = crews(json!({}), 2, 2, json!({"autoreset": "auto"}));
    let batch = agent.step(json!([9, 1]), json!({}));
    assert_eq!(batch.column("infos")[0]["final_obs"], json!([9.0, 1.0]));
}

#[test]
fn a_selection_that_cuts_a_process_is_refused_before_anything_is_sent() {
    let (mut agent, _) = crews(settings(json!("same_step"), json!({})), 4, 2, json!({}));
    let rows = json!({"rows": [0, 1, 2]});
    let message = refusal(request_with(&mut agent, "step", rows.clone(), br#"{"actions":[1,2,3]}"#));
    assert!(message.contains("rows 2 to 3 are one process"), "{message}");
    refusal(request_with(&mut agent, "reset", rows.clone(), b"{}"));
    refusal(request_with(&mut agent, "reset", json!({"rows": [1], "hard": true}), b"{}"));
    let batch = agent.step(json!([1, 2]), json!({"rows": [2, 3]}));
    assert_eq!(batch.column("obs"), json!([[1.0, 1.0], [2.0, 1.0]]), "nothing was stepped before");
    assert_eq!(agent.reset(json!({"rows": [2, 3], "hard": true})).head["failed"], json!([]));
}

#[test]
fn a_part_can_be_reset_where_it_says_so() {
    let (mut agent, _) = crews(settings(json!("same_step"), json!({"partial_reset": true})), 4, 4, json!({}));
    agent.step(json!([1, 2, 3, 4]), json!({}));
    let batch = agent.reset(json!({"rows": [1, 3]}));
    assert_eq!(batch.column("obs"), json!([[1.0, 0.0], [3.0, 0.0]]));
    assert_eq!(agent.step(json!([1, 1, 1, 1]), json!({})).column("obs")[0], json!([1.0, 2.0]));
    refusal(request_with(&mut agent, "step", json!({"rows": [1]}), br#"{"actions":[1]}"#));
    let fault = br#"{"actions":[{"fail":"exception"},1,1,1]}"#;
    assert_eq!(batch_with(&mut agent, "step", json!({}), fault).head["failed"], json!([0, 1, 2, 3]));
    let message = refusal(request_with(&mut agent, "reset", json!({"rows": [1]}), b"{}"));
    assert!(message.contains("made anew"), "{message}");
}

#[test]
fn a_process_gets_one_seed_unless_it_takes_one_a_row() {
    let (mut agent, _) = crews(settings(json!("same_step"), json!({})), 4, 2, json!({}));
    let infos = agent.reset(json!({"seeds": [40, 41, 7, 8]})).column("infos");
    let seeds: Vec<&Value> = infos.as_array().expect("infos").iter().map(|info| &info["seed"]).collect();
    assert_eq!(seeds, [&json!(40), &json!(41), &json!(7), &json!(8)]);
    for seeds in [json!([40, 42, 43, 44]), json!([1, null, 3, 4])] {
        let message = refusal(request_with(&mut agent, "reset", json!({"seeds": seeds}), b"{}"));
        assert!(message.contains("one seed"), "{message}");
    }
    let (mut agent, _) = crews(settings(json!("same_step"), json!({"row_seeds": true})), 2, 2, json!({}));
    assert_eq!(agent.reset(json!({"seeds": [9, 3]})).column("infos")[1]["seed"], 3);
}

#[test]
fn options_a_row_are_refused_unless_they_are_the_same() {
    let (mut agent, _) = crews(settings(json!("same_step"), json!({})), 2, 2, json!({}));
    let each = br#"{"options":[{"a":1},{"a":2}]}"#;
    refusal(request_with(&mut agent, "reset", json!({"total": 2}), each));
    let same = br#"{"options":[{"a":1},{"a":1}]}"#;
    let batch = batch_with(&mut agent, "reset", json!({"total": 2}), same);
    assert_eq!(batch.column("infos")[1]["options"], json!({"a": 1}));
}

#[test]
fn an_exception_in_its_step_fails_all_rows_of_the_process_which_goes_on() {
    let (mut agent, _) = crews(settings(json!("same_step"), json!({})), 4, 2, json!({}));
    let pid = agent.status()["rows"][0]["pid"].clone();
    let batch = agent.step(json!([{"fail": "exception"}, 2, 3, 4]), json!({}));
    assert_eq!(batch.head["failed"], json!([0, 1]));
    assert_eq!(batch.column("terminated"), json!([true, true, false, false]));
    let batch = agent.step(json!([5, 6, 7, 8]), json!({}));
    assert_eq!(batch.head["failed"], json!([]), "its autoreset mode resets it: {}", batch.text("infos"));
    assert_eq!(batch.column("rewards"), json!([0.0, 0.0, 7.0, 8.0]));
    assert_eq!(agent.status()["rows"][0]["pid"], pid);
}

#[test]
fn rows_that_have_not_shown_their_error_hold_back_the_reset_of_the_process() {
    let (mut agent, _) = crews(settings(json!("same_step"), json!({})), 2, 2, json!({}));
    agent.call("render", json!({"args": [{"play": [["exit", 3]]}]}), json!({"rows": [0]}));
    let mut batch = agent.step(json!([1, 2]), json!({}));
    assert_eq!((&batch.error(0)["repeated"], &batch.error(1)["repeated"]), (&json!(true), &Value::Null));
    while batch.head["failed"] != json!([]) {
        assert_eq!(batch.head["failed"], json!([0, 1]), "both or none");
        batch = agent.step(json!([1, 2]), json!({}));
    }
    assert_eq!(batch.column("rewards"), json!([0.0, 0.0]));
}
