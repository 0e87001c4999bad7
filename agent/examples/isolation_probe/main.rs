//! Stands in for the agent, a template and hostile environments in the isolation tests. The tests put it
//! into a container as process 1 (`agent`) and drive it line by line; inside, it starts itself in the
//! other roles.

#[cfg(target_os = "linux")]
mod agent;
#[cfg(target_os = "linux")]
mod attempts;
#[cfg(target_os = "linux")]
mod burdens;
#[cfg(target_os = "linux")]
mod peek;
#[cfg(target_os = "linux")]
mod raw;
#[cfg(target_os = "linux")]
mod template;
#[cfg(target_os = "linux")]
mod whoami;

#[cfg(target_os = "linux")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["agent"] => agent::serve(),
        ["template"] => template::serve(3),
        ["whoami"] => println!("{}", whoami::describe()),
        ["attempt", names @ ..] => println!("{}", attempts::run(names)),
        ["victim"] => peek::be_victim(),
        ["peek", rest @ ..] => println!("{}", peek::look(rest)),
        ["relay", ..] => std::process::exit(sandpool_agent::relay::run(&arguments[1..])),
        other => burdens::run(other),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("isolation_probe: only Linux isolates");
    std::process::exit(64);
}
