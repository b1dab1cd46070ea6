#!/bin/sh
# Starts what vcctl submitted in a pod; needs sh only, and ssh with sshd for the steps of a script on several nodes. Its modes:
#   batch WORDS…     the script, with these arguments, once; `srun` and `scontrol show hostnames` in it are this file, too
#   tasks WORDS…     the command, as often as the pod has tasks
#   steps            a pod of a script on several nodes, in which the script starts its steps
#   wait SECONDS     keeps the pod until a terminal has ended, or nobody has used one for so long; 0 for never
#   terminal WORDS…  the command of a terminal, started by `exec`
here=$(cd "$(dirname "$0")" && pwd)
run=${VCCTL_RUN:-/tmp} index=${VC_TASK_INDEX:-0} per_pod=${VCCTL_TASKS:-1}
export SLURM_NTASKS="${VCCTL_NTASKS:-${SLURM_NTASKS:-1}}" SLURM_CPUS_PER_TASK="${VCCTL_CPUS:-${SLURM_CPUS_PER_TASK:-1}}"
export SLURM_SUBMIT_DIR="${SLURM_SUBMIT_DIR:-$PWD}" SLURM_JOB_NUM_NODES="${SLURM_JOB_NUM_NODES:-1}"

expand() { # replaces the patterns of Slurm in the name of a file
  text='' rest=$1
  while :; do
    case $rest in *%*) ;; *) break ;; esac
    text=$text${rest%%%*} rest=${rest#*%}
    width=${rest%%[!0-9]*}
    rest=${rest#"$width"}
    case $rest in
      a*) text=$text$(printf "%0${width:-1}d" "${SLURM_ARRAY_TASK_ID:-$index}") ;;
      [jA]*) text=$text$SLURM_JOB_ID ;;
      x*) text=$text$SLURM_JOB_NAME ;;
      u*) text=$text$VCCTL_USER ;;
      [tn]*) text=$text$index ;;
      [Ns]*) text=$text$(hostname) ;;
      %*) text=$text% ;;
      *) text=$text%$width${rest%"${rest#?}"} ;;
    esac
    rest=${rest#?}
  done
  printf '%s' "$text$rest"
}

copy_to() { # FILE PIPE: copies what is written into the pipe to the file and to the log
  file=$(expand "$1")
  if [ "$VCCTL_OPEN" = truncate ]; then : > "$file"; else : >> "$file"; fi || exit 1
  mkfifo "$run/$2" || exit 1
}

redirect() {
  [ -z "$VCCTL_INPUT" ] || exec < "$(expand "$VCCTL_INPUT")" || exit 1
  if [ -n "$VCCTL_ERROR" ]; then
    copy_to "$VCCTL_ERROR" error
    copying "$file" error >&2 &
    copies="$copies $!"
    exec 2> "$run/error"
  fi
  if [ -n "$VCCTL_OUTPUT" ]; then
    copy_to "$VCCTL_OUTPUT" output
    copying "$file" output &
    copies="$copies $!"
    exec > "$run/output"
    [ -n "$VCCTL_ERROR" ] || exec 2>&1
  fi
}

finish() { # ends when the copies are complete
  exec > /dev/null 2>&1
  for copy in $copies; do wait "$copy"; done
  exit "$1"
}

copying() { # FILE PIPE: no signal ends a copy before its end
  trap '' HUP INT QUIT USR1 USR2 ALRM TERM
  exec tee -a "$1" < "$run/$2"
}

forward() { # hands signals on to processes; only the first process of a container has to, others get them with their group
  for signal in HUP INT QUIT USR1 USR2 ALRM TERM CONT; do
    if [ "$$" = 1 ]; then trap "kill -s $signal $* 2>/dev/null" "$signal"; else trap : "$signal"; fi
  done
}

supervise() { # runs a command, hands signals on to it, and sets `status`
  exec 3<&0
  "$@" <&3 3<&- &
  child=$!
  exec 3<&-
  forward "$child"
  while :; do
    wait "$child"
    status=$?
    kill -0 "$child" 2>/dev/null || break
  done
  wait "$child" 2>/dev/null
  late=$?
  [ "$late" = 127 ] || status=$late
}

hosts() { # prints the host names of the pods, of which the last in a file has no line end
  for file in /etc/volcano/master.host /etc/volcano/worker.host /etc/volcano/task.host; do
    [ ! -f "$file" ] || while read -r host || [ -n "$host" ]; do echo "$host"; done < "$file"
  done
}

tasks() { # NODE COUNT WORDS…: runs the command COUNT times, as the tasks of this node, and sets `status` to the worst
  node=$1 count=$2 status=0 children=''
  shift 2
  export SLURM_NTASKS SLURM_NODEID="$node"
  i=0
  while [ "$i" -lt "$count" ]; do
    rank=$((node * ${step_tasks:-$count} + i))
    if [ "$rank" -lt "$SLURM_NTASKS" ]; then
      export SLURM_PROCID="$rank" SLURM_LOCALID="$i" RANK="$rank" LOCAL_RANK="$i" WORLD_SIZE="$SLURM_NTASKS"
      if [ "$count" = 1 ]; then
        supervise "$@"
        return
      fi
      "$@" &
      children="$children $!"
    fi
    i=$((i + 1))
  done
  # shellcheck disable=SC2086 # one process for each word
  forward $children
  for child in $children; do
    while :; do
      wait "$child"
      code=$?
      kill -0 "$child" 2>/dev/null || break
    done
    [ "$code" -le "$status" ] || status=$code
  done
}

step() { # srun in a script: OPTIONS… WORDS…
  nodes=$(hosts | grep -c .)
  [ "$nodes" -gt 0 ] || nodes=1
  count='' wanted=$nodes
  while :; do
    case $1 in
      -n | --ntasks) count=$2; shift 2 ;;
      -n?*) count=${1#-n}; shift ;;
      --ntasks=*) count=${1#*=}; shift ;;
      -N | --nodes) wanted=$2; shift 2 ;;
      -N?*) wanted=${1#-N}; shift ;;
      --nodes=*) wanted=${1#*=}; shift ;;
      --) shift; break ;;
      --*=* | --exclusive | --exact | --overlap | --label | --unbuffered | --verbose | --quiet | --kill-on-bad-exit) shift ;;
      -l | -u | -v | -q | -Q | -K) shift ;;
      --multi-prog | --pty | --het-group*) echo "srun: $1 cannot be used in a script here" >&2; exit 1 ;;
      --*) shift 2 ;;
      -?) shift 2 ;;
      -?*) shift ;;
      *) break ;;
    esac
  done
  [ $# -gt 0 ] || { echo "srun: name a command" >&2; exit 1; }
  [ "$wanted" -le "$nodes" ] || { echo "srun: the Job has $nodes nodes, and the step asks for $wanted" >&2; exit 1; }
  export SLURM_NTASKS="${count:-${SLURM_NTASKS:-1}}"
  [ -n "$count" ] || [ "$wanted" = "$nodes" ] || SLURM_NTASKS=$wanted
  [ "$SLURM_NTASKS" -ge "$wanted" ] || wanted=$SLURM_NTASKS
  step_tasks=$(((SLURM_NTASKS + wanted - 1) / wanted))
  export step_tasks
  if [ "$wanted" = 1 ]; then
    tasks 0 "$step_tasks" "$@"
    exit "$status"
  fi
  command -v ssh > /dev/null || {
    echo "srun: the image has no ssh, which steps on several nodes need; sshd, too" >&2
    echo "srun: without them, submit the command itself: vcctl srun -N $wanted -n $SLURM_NTASKS COMMAND" >&2
    exit 1
  }
  words=$(quoted "$@") node=0 status=0 steps=''
  for host in $(hosts | head -n "$wanted"); do
    if [ "$node" = 0 ]; then
      (tasks 0 "$step_tasks" "$@"; exit "$status") &
    else
      ssh -o StrictHostKeyChecking=no -o LogLevel=ERROR -o ConnectionAttempts=60 "$host" \
        "$(export -p); cd $(quoted "$PWD") && $(quoted "$here/launch") node $node $step_tasks $words" < /dev/null &
    fi
    steps="$steps $!" node=$((node + 1))
  done
  for child in $steps; do
    wait "$child"
    code=$?
    [ "$code" -le "$status" ] || status=$code
  done
  exit "$status"
}

quoted() { # prints words so that sh reads them again
  for word in "$@"; do
    printf "'"
    while :; do
      case $word in *\'*) printf "%s'\\''" "${word%%\'*}"; word=${word#*\'} ;; *) break ;; esac
    done
    printf "%s' " "$word"
  done
}

used() { # whether a terminal was written to, or its processes took more than 1 % of a CPU, since the last call
  now=0 answer=1
  for file in "$run"/terminal.*; do
    [ -e "$file" ] || continue
    read -r leader terminal < "$file"
    if [ ! -d "/proc/$leader" ]; then rm -f "$file"; continue; fi
    [ ! "$terminal" -nt "$run/mark" ] || answer=0
    for file in /proc/[0-9]*/stat; do
      { read -r line < "$file"; } 2>/dev/null || continue
      # shellcheck disable=SC2086 # the fields behind the name of the program, which may contain spaces
      set -- ${line##*) }
      [ "$4" != "$leader" ] || now=$((now + ${12} + ${13}))
    done
  done
  echo > "$run/mark"
  [ $((now - ticks)) -le "$PERIOD" ] || answer=0
  ticks=$now
  return "$answer"
}

case ${0##*/} in
  srun) step "$@" ;;
  scontrol)
    [ "$1 $2" = "show hostnames" ] || { echo "scontrol: only 'show hostnames' is known in a script" >&2; exit 1; }
    printf '%s\n' "${3:-$SLURM_JOB_NODELIST}" | tr ',' '\n'
    exit
    ;;
esac

mode=$1
shift
if [ "$mode" = terminal ]; then
  [ ! -d "$run/folder" ] || cd "$run/folder" || exit 1
  echo "$$ $(tty)" > "$run/terminal.$$"
  "$@"
  status=$?
  echo "$status" > "$run/status"
  read -r keeper < "$run/keeper"
  kill -s USR1 "$keeper"
  exit "$status"
fi

if [ -f "$here/folder" ]; then
  mkdir -p "$run/folder" && cd "$run/folder" && tar xzf "$here/folder" || exit 1
fi
PATH=$here:$PATH
nodelist=$(hosts | tr '\n' ' ')
if [ -n "$nodelist" ]; then
  # shellcheck disable=SC2086 # one host for each word
  set -- $nodelist -- "$@"
  first=$1 list=''
  while [ "$1" != -- ]; do
    list=${list:+$list,}$1
    echo "$1 slots=$per_pod" >> "$run/hosts"
    echo "$1:$per_pod" >> "$run/machines"
    shift
  done
  shift
  export SLURM_JOB_NODELIST="$list" SLURM_NODELIST="$list" MASTER_ADDR="${MASTER_ADDR:-$first}"
  export OMPI_MCA_orte_default_hostfile="$run/hosts" PRTE_MCA_prte_default_hostfile="$run/hosts" HYDRA_HOST_FILE="$run/machines"
  export PET_NNODES="${SLURM_JOB_NUM_NODES:-1}" PET_NODE_RANK="$index" PET_MASTER_PORT="${MASTER_PORT:-29500}"
  export PET_MASTER_ADDR="$MASTER_ADDR"
else
  export SLURM_JOB_NODELIST="${SLURM_JOB_NODELIST:-$(hostname)}" MASTER_ADDR="${MASTER_ADDR:-127.0.0.1}"
fi
export MASTER_PORT="${MASTER_PORT:-29500}"
[ -z "$VCCTL_GPUS" ] || export PET_NPROC_PER_NODE="$VCCTL_GPUS"

case $mode in
  batch)
    redirect
    supervise "$here/script" "$@"
    finish "$status"
    ;;
  tasks)
    redirect
    step_tasks=$per_pod
    tasks "$index" "$per_pod" "$@"
    finish "$status"
    ;;
  node)
    tasks "$@"
    exit "$status"
    ;;
  steps)
    command -v sshd > /dev/null || PATH=$PATH:/usr/sbin
    server=$(command -v sshd) || { echo "the image has no sshd, which a script on several nodes needs" >&2; exit 1; }
    mkdir -p /run/sshd
    exec "$server" -D -e -o ListenAddress="$(hostname -i)" -o StrictModes=no -o PidFile=none
    ;;
  wait)
    PERIOD=5 limit=$1 idle=0 ticks=0
    echo "$$" > "$run/keeper"
    echo > "$run/mark"
    trap : USR1
    trap 'exit 143' TERM INT
    while :; do
      sleep "$PERIOD" > /dev/null 2>&1 &
      wait "$!"
      [ ! -f "$run/status" ] || exit "$(cat "$run/status")"
      if used; then idle=0; else idle=$((idle + PERIOD)); fi
      if [ "$limit" -gt 0 ] && [ "$idle" -ge "$limit" ]; then
        echo "released: nobody has used a terminal of this Job for $limit s"
        exit 0
      fi
    done
    ;;
esac
