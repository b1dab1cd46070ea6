// Says what Kubernetes 1.36.1 finds wrong with pod templates as the original asks it: defaults filled in, no option but resources
// of whole pods. Reads lines {"template": ..., "levels": false} (levels: true where absent), writes a JSON list of errors for each.
//
// To be built in a copy of tests/control_plane/tools/kubernetes: go build -mod=mod -o templates .
package main

import (
	"bufio"
	"encoding/json"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"
)

func main() {
	capabilities.Setup(true, 0)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	answers := json.NewEncoder(os.Stdout)
	answers.SetEscapeHTML(false)
	for lines.Scan() {
		given := struct {
			Template v1.PodTemplateSpec
			Levels   *bool
		}{}
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			panic(err)
		}
		versioned := v1.PodTemplate{Template: given.Template}
		corev1.SetObjectDefaults_PodTemplate(&versioned)
		template := core.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "task-1", Namespace: "team-a"}}
		if err := corev1.Convert_v1_PodTemplateSpec_To_core_PodTemplateSpec(&versioned.Template, &template.Template, nil); err != nil {
			panic(err)
		}
		options := validation.PodValidationOptions{PodLevelResourcesEnabled: given.Levels == nil || *given.Levels}
		said := []string{}
		for _, found := range validation.ValidatePodTemplate(&template, options) {
			said = append(said, found.Error())
		}
		if err := answers.Encode(said); err != nil {
			panic(err)
		}
	}
}
